// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readAll(t *testing.T, r *Reader) []byte {
	t.Helper()
	defer r.Close()
	var got []byte
	for {
		chunk, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, chunk.Data...)
	}
}

func TestAReaderGetsEveryByteFromItsCursorOn(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	var want []byte
	for i := range 5000 {
		line := fmt.Appendf(nil, "line %d %s\n", i, bytes.Repeat([]byte("x"), i%200))
		if err := j.Append(Stdout, line); err != nil {
			t.Fatal(err)
		}
		want = append(want, line...)
	}
	j.Seal()
	for _, cursor := range []int64{0, 1, 777, 65536, 300000, int64(len(want)) - 1, int64(len(want))} {
		if got := readAll(t, j.Read(cursor)); !bytes.Equal(got, want[cursor:]) {
			t.Errorf("from cursor %d: got %d bytes, want %d", cursor, len(got), len(want)-int(cursor))
		}
	}
}

func TestSourcesKeepTheirOrderAndOffsets(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	for _, part := range []struct {
		source Source
		text   string
	}{{Stdout, "a"}, {Stderr, "bb"}, {Stdout, "ccc"}} {
		if err := j.Append(part.source, []byte(part.text)); err != nil {
			t.Fatal(err)
		}
	}
	j.Seal()
	r := j.Read(2)
	defer r.Close()
	chunk, err := r.Next(context.Background())
	if err != nil || chunk.Source != Stderr || chunk.Offset != 2 || string(chunk.Data) != "b" {
		t.Fatalf("got %+v %q, %v", chunk, chunk.Data, err)
	}
	chunk, err = r.Next(context.Background())
	if err != nil || chunk.Source != Stdout || chunk.Offset != 3 || string(chunk.Data) != "ccc" {
		t.Fatalf("got %+v %q, %v", chunk, chunk.Data, err)
	}
}

func TestTheFileStaysWithinItsLimitAndTheNewestBytesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := New(path, minimumLimit)
	random := rand.New(rand.NewPCG(1, 2))
	var all []byte
	for range 3000 {
		piece := make([]byte, 1+random.IntN(1500))
		for i := range piece {
			piece[i] = byte(random.Uint32())
		}
		if err := j.Append(Stdout, piece); err != nil {
			t.Fatal(err)
		}
		all = append(all, piece...)
	}
	j.Seal()
	info, err := os.Stat(path)
	if err != nil || info.Size() > minimumLimit {
		t.Fatalf("file has %d bytes, limit %d, %v", info.Size(), minimumLimit, err)
	}
	r := j.Read(0)
	first := r.Cursor()
	if first == 0 {
		t.Fatal("nothing was dropped")
	}
	if got := readAll(t, r); !bytes.Equal(got, all[first:]) {
		t.Fatalf("kept bytes differ: %d from %d on", len(got), first)
	}
}

func TestAWriterWaitsForAnOpenReaderInsteadOfDroppingItsBytes(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), minimumLimit)
	r := j.Read(0)
	const total = 40 * maxPayload
	written := make(chan error, 1)
	go func() {
		piece := make([]byte, maxPayload)
		var err error
		for i := 0; i < total && err == nil; i += len(piece) {
			for k := range piece {
				piece[k] = byte((i + k) / 7)
			}
			err = j.Append(Stdout, piece)
		}
		j.Seal()
		written <- err
	}()
	got := readAll(t, r)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if len(got) != total {
		t.Fatalf("read %d of %d bytes", len(got), total)
	}
	for i, b := range got {
		if b != byte(i/7) {
			t.Fatalf("byte %d is wrong", i)
		}
	}
}

func TestClosingTheReaderLetsTheWriterGoOn(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), minimumLimit)
	r := j.Read(0)
	written := make(chan error, 1)
	go func() { written <- j.Append(Stdout, make([]byte, 10*maxPayload)) }()
	select {
	case <-written:
		t.Fatal("the writer did not wait")
	case <-r.journal.blockedForTest():
	}
	r.Close()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// blockedForTest is closed at the next change after the ring has filled: a reader that never reads
// makes the writer wait, and the wait itself is what we look for.
func (j *Journal) blockedForTest() <-chan struct{} {
	blocked := make(chan struct{})
	go func() {
		for {
			j.mu.Lock()
			isFull := j.head.ring+headerSize+maxPayload-j.tail.ring > j.limit && j.changed != nil
			j.mu.Unlock()
			if isFull {
				close(blocked)
				return
			}
		}
	}()
	return blocked
}

func TestOutputAfterTheSealIsKeptButNotWaitedFor(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	_ = j.Append(Stdout, []byte("run"))
	r := j.Read(0)
	j.Seal()
	_ = j.Append(Stdout, []byte("late"))
	if got := readAll(t, r); string(got) != "run" {
		t.Errorf("a reader of the run got %q", got)
	}
	if got := readAll(t, j.Read(0)); string(got) != "runlate" {
		t.Errorf("a later reader got %q", got)
	}
}

func TestWithoutADiskTheJournalLivesInMemoryAndReadersLoseNothing(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "missing", "j"), DefaultLimit)
	r := j.Read(0)
	want := bytes.Repeat([]byte("0123456789"), memoryLimit/4)
	go func() {
		_ = j.Append(Stdout, want)
		j.Seal()
	}()
	if got := readAll(t, r); !bytes.Equal(got, want) {
		t.Fatalf("got %d of %d bytes", len(got), len(want))
	}
}

// fullDisk is a ring that takes no more bytes after some.
type fullDisk struct {
	ring
	left int
}

func (f *fullDisk) WriteAt(p []byte, at int64) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return f.ring.WriteAt(p, at)
}

func TestAFullDiskMidwayLosesNothingForAnOpenReader(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	j.Hold()
	if err := j.Append(Stdout, []byte("first")); err != nil {
		t.Fatal(err)
	}
	j.ring = &fullDisk{ring: j.ring, left: 100 << 10}
	want := append([]byte("first"), bytes.Repeat([]byte("abcdefghij"), 100_000)...)
	r := j.Read(0)
	go func() {
		for rest := want[5:]; len(rest) > 0; rest = rest[1000:] {
			_ = j.Append(Stdout, rest[:1000])
		}
		j.Seal()
		j.Release()
	}()
	if got := readAll(t, r); !bytes.Equal(got, want) {
		t.Fatalf("got %d of %d bytes", len(got), len(want))
	}
	if !j.isInMemory {
		t.Fatal("the disk was never full")
	}
}

func TestADiscardedJournalRemovesItsFileAndFreesItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := New(path, minimumLimit)
	r := j.Read(0)
	written := make(chan error, 1)
	go func() { written <- j.Append(Stdout, make([]byte, 10*maxPayload)) }()
	<-j.blockedForTest()
	j.Discard()
	if err := <-written; !errors.Is(err, ErrDiscarded) {
		t.Errorf("writer got %v", err)
	}
	r.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file is still there: %v", err)
	}
}

func TestAWaitingReaderStopsWithItsContext(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	r := j.Read(0)
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAReaderThatHasBegunReadsToTheEndOfADiscardedJournal(t *testing.T) {
	j := New(filepath.Join(t.TempDir(), "j"), DefaultLimit)
	j.Hold()
	r := j.Read(0)
	defer r.Close()
	for range 10 {
		if err := j.Append(Stdout, []byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	j.Seal()
	j.Release()
	j.Discard()
	got := 10
	for {
		chunk, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(chunk.Data)
	}
	if got != 100 {
		t.Errorf("%d bytes of 100", got)
	}
}
