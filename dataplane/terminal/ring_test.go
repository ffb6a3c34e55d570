// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestRingRemembersTheLastBytesWhateverTheSizesOfWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ring
	var all []byte
	for len(all) < 5*ringSize {
		piece := make([]byte, random.IntN(ringSize/2))
		for i := range piece {
			piece[i] = byte(random.Uint32())
		}
		r.append(piece)
		all = append(all, piece...)
		checkRing(t, &r, all, int64(random.IntN(len(all)+1)))
	}
	checkRing(t, &r, all, 0)
}

func checkRing(t *testing.T, r *ring, all []byte, since int64) {
	t.Helper()
	first, missed := r.since(since)
	oldest := max(since, int64(len(all)-ringSize))
	if first != oldest || !bytes.Equal(missed, all[oldest:]) {
		t.Fatalf("since %d of %d: got %d bytes from %d, want %d from %d", since, len(all), len(missed), first, len(all)-int(oldest), oldest)
	}
}

func TestRingTakesAWriteLargerThanItself(t *testing.T) {
	for _, before := range []int{0, 10, ringSize, ringSize + 7} {
		var r ring
		all := bytes.Repeat([]byte{'a'}, before)
		r.append(all)
		large := make([]byte, 2*ringSize+13)
		for i := range large {
			large[i] = byte(i * 7)
		}
		r.append(large)
		checkRing(t, &r, append(all, large...), 0)
	}
}

func TestRingHasNothingForAnOffsetItHasNotReached(t *testing.T) {
	var r ring
	r.append([]byte("abc"))
	for _, since := range []int64{3, 4, 1 << 60} {
		if first, missed := r.since(since); first != 3 || missed != nil {
			t.Errorf("since %d: got %q from %d", since, missed, first)
		}
	}
}

func TestRingDoesNotTakeItsWholeSizeForALittleOutput(t *testing.T) {
	var r ring
	r.append([]byte("a few bytes"))
	if cap(r.kept) > 1024 {
		t.Errorf("11 bytes hold %d", cap(r.kept))
	}
}
