// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAShellInATerminalEchoesAndAnswers(t *testing.T) {
	_, client := start(t, newTerminals(t), PTY, "")
	write(t, client, "echo $((6*7))-$TERM\n")
	seen := readUntil(t, client, "42-")
	if !strings.Contains(seen, "echo $((6*7))") {
		t.Errorf("no echo of what was typed: %q", seen)
	}
	write(t, client, "tty; exit 7\n")
	rest, _ := readAll(t, client)
	if !strings.Contains(rest, "/dev/pts/") {
		t.Errorf("not in a terminal: %q", rest)
	}
	if got := client.Exit().Code; got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
}

func TestATerminalHasTheDefaultTypeAndSizeUntilResized(t *testing.T) {
	_, client := start(t, newTerminals(t, "TERM="), PTY, "")
	write(t, client, "stty size; echo T:$TERM\n")
	readUntil(t, client, "24 80\r\nT:xterm-256color")
	if err := client.Resize(133, 44); err != nil {
		t.Fatal(err)
	}
	write(t, client, "stty size\n")
	readUntil(t, client, "44 133")
}

func TestAResizeThatAProgramUndoesWithoutKnowingIsDoneAgain(t *testing.T) {
	// The program does what readline does before a prompt, with the resize in between.
	_, client := start(t, newTerminals(t), PTY, "stty -echo; old=$(stty size); echo ready; read line; set -- $old; "+
		"stty rows $1 cols $2; echo undone; read line; stty size")
	readUntil(t, client, "ready")
	if err := client.Resize(133, 44); err != nil {
		t.Fatal(err)
	}
	write(t, client, "\n")
	readUntil(t, client, "undone")
	write(t, client, "\n")
	readUntil(t, client, "44 133")
}

func TestTheEnvironmentOfTheRequestReachesTheShell(t *testing.T) {
	terminals := newTerminals(t, "TERM=vt100")
	terminal := create(t, terminals, Spec{Command: "echo $TRACE $TERM", Env: map[string]string{"TRACE": "given"}})
	stdout, _ := readAll(t, attach(t, terminal, PTY, 0))
	if stdout != "given vt100\r\n" {
		t.Errorf("got %q", stdout)
	}
}

func TestASignalReachesTheForegroundJobAndNotTheShell(t *testing.T) {
	for name, want := range map[string]int{"SIGINT": 130, "SIGTERM": 143, "SIGKILL": 137, "SIGQUIT": 131, "SIGHUP": 129} {
		t.Run(name, func(t *testing.T) {
			_, client := start(t, newTerminals(t), PTY, "")
			// The job is in the foreground before it says so, and one program only.
			write(t, client, "ulimit -c 0; sh -c 'echo rea''dy; exec sleep 1000'\n")
			readUntil(t, client, "ready\r\n")
			if err := client.Signal(signals[name]); err != nil {
				t.Fatal(err)
			}
			write(t, client, "echo status=$?.\n")
			readUntil(t, client, fmt.Sprintf("status=%d.", want))
		})
	}
}

func TestPipeModeKeepsTheStreamsApartAndEchoesNothing(t *testing.T) {
	terminal, client := start(t, newTerminals(t), Pipe, "")
	write(t, client, "echo out; echo err >&2; exit 3\n")
	stdout, stderr := readAll(t, client)
	if stdout != "out\n" || stderr != "err\n" || client.Exit().Code != 3 {
		t.Errorf("got %q, %q, %v", stdout, stderr, client.Exit())
	}
	if status := terminal.Status(); status.OutputOffset != 8 || status.IsRunning {
		t.Errorf("got %+v", status)
	}
}

func TestASignalInPipeModeReachesTheGroup(t *testing.T) {
	_, client := start(t, newTerminals(t), Pipe, "echo ready; sleep 1000")
	readUntil(t, client, "ready")
	if err := client.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	readAll(t, client)
	if exit := client.Exit(); exit.Signal != syscall.SIGTERM || exit.Code != -1 {
		t.Errorf("got %v", exit)
	}
}

func TestThousandsOfLinesArriveInOrderBeforeTheEnd(t *testing.T) {
	for _, mode := range []Mode{PTY, Pipe} {
		t.Run(string(mode), func(t *testing.T) {
			_, client := start(t, newTerminals(t), mode, "seq 1 50000")
			stdout, _ := readAll(t, client)
			lines := strings.Fields(stdout)
			for i, line := range lines {
				if line != strconv.Itoa(i+1) {
					t.Fatalf("line %d is %q", i+1, line)
				}
			}
			if len(lines) != 50000 {
				t.Errorf("%d lines", len(lines))
			}
		})
	}
}

func TestTheLastOutputOfAQuickShellIsNeverLost(t *testing.T) {
	terminals := newTerminals(t)
	for range 50 {
		for _, mode := range []Mode{PTY, Pipe} {
			terminal, client := start(t, terminals, mode, "printf last")
			if stdout, _ := readAll(t, client); stdout != "last" {
				t.Fatalf("%s: got %q", mode, stdout)
			}
			if err := terminals.Delete(terminal.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestABackgroundProcessDoesNotDelayTheEnd(t *testing.T) {
	for _, mode := range []Mode{PTY, Pipe} {
		t.Run(string(mode), func(t *testing.T) {
			held := filepath.Join(t.TempDir(), "held")
			if err := syscall.Mkfifo(held, 0o600); err != nil {
				t.Fatal(err)
			}
			// The child holds the shell's output and ends only when the test closes the FIFO.
			gate, err := os.OpenFile(held, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer gate.Close()
			_, client := start(t, newTerminals(t), mode, "(trap '' HUP; read line <"+held+") & echo begun; exit 4")
			stdout, _ := readAll(t, client)
			if !strings.Contains(stdout, "begun") || client.Exit().Code != 4 {
				t.Errorf("got %q, %v", stdout, client.Exit())
			}
			if _, err := gate.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAShellLivesOnWithoutAClientAndIsReplayed(t *testing.T) {
	terminal, client := start(t, newTerminals(t), PTY, "")
	write(t, client, "PS1=; stty -echo; echo one''two\n")
	before := readUntil(t, client, "onetwo\r\n")
	if _, missed := client.Replay(); missed != nil {
		t.Errorf("a new terminal replays %q", missed)
	}
	write(t, client, "echo three''four; exit\n")
	readAll(t, client)
	client.Detach()

	end := terminal.Status().OutputOffset
	for _, since := range []int64{0, int64(len(before)), end - 2, end, end + 100} {
		again := attach(t, terminal, Pipe, since) // the mode is that of the start
		offset, missed := again.Replay()
		if want := min(since, end); offset != want || int64(len(missed)) != end-want {
			t.Errorf("since %d: %d bytes from %d of %d", since, len(missed), offset, end)
		}
		if since == int64(len(before)) && !strings.Contains(string(missed), "threefour") {
			t.Errorf("replayed %q", missed)
		}
		if rest, _ := readAll(t, again); rest != "" || again.Exit().Code != 0 {
			t.Errorf("after the end: %q, %v", rest, again.Exit())
		}
		again.Detach()
	}
}

func TestOutputFlowsIntoTheRingWhileNobodyIsAttached(t *testing.T) {
	terminal, client := start(t, newTerminals(t), Pipe, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done")
	client.Detach()
	select {
	case <-terminal.ended:
	case <-time.After(testTimeout):
		t.Fatal("the shell waits for a client")
	}
	again := attach(t, terminal, Pipe, 0)
	offset, missed := again.Replay()
	const total int64 = 3000000 + 6 // and "\ndone\n"
	if offset != total-ringSize || len(missed) != ringSize || !strings.HasSuffix(string(missed), "x\ndone\n") {
		t.Errorf("%d bytes from %d", len(missed), offset)
	}
}

func TestAClientThatDoesNotReadHoldsTheShellBackAndCostsLittle(t *testing.T) {
	const total = 64 << 20
	terminal, client := start(t, newTerminals(t), Pipe, fmt.Sprintf("yes | head -c %d", total))
	const bound = (outputBacklog + 1) * MaxChunk
	awaitBacklog(client)
	if got := terminal.Status().OutputOffset; got > bound {
		t.Errorf("%d bytes were taken from the shell for a client that reads none", got)
	}
	client.Detach()
	select {
	case <-terminal.ended:
	case <-time.After(testTimeout):
		t.Fatal("the shell still waits for a client that left")
	}
	if got := terminal.Status().OutputOffset; got != total {
		t.Errorf("%d bytes of output, want %d", got, total)
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 16<<20 {
		t.Errorf("%d bytes of heap after %d of output", memory.HeapAlloc, total)
	}
}

func TestOnlyOneClientIsAttachedUnlessItIsTakenOver(t *testing.T) {
	terminal, first := start(t, newTerminals(t), PTY, "")
	write(t, first, "PS1=; stty -echo; echo wh''ole\n")
	seen := readUntil(t, first, "whole\r\n")
	if _, err := terminal.Attach(0, false); !errors.Is(err, ErrAttached) {
		t.Fatalf("a second client: %v", err)
	}
	second, err := terminal.Attach(int64(len(seen)), true)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Detach()
	<-first.Gone()
	if !errors.Is(first.Cause(), ErrTakenOver) {
		t.Errorf("cause %v", first.Cause())
	}
	if err := first.Write([]byte("echo intruder\n")); !errors.Is(err, ErrGone) {
		t.Errorf("the old client still types: %v", err)
	}
	first.Detach() // of the old client: the new one keeps its place
	write(t, second, "echo st''ill\n")
	readUntil(t, second, "still")
}

func TestASlowClientCanBeTakenOver(t *testing.T) {
	terminal, slow := start(t, newTerminals(t), Pipe, "seq 1 1000000")
	second, err := terminal.Attach(0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Detach()
	<-slow.Gone()
	_, replay := second.Replay()
	rest, _ := readAll(t, second)
	if all := string(replay) + rest; !strings.HasPrefix(all, "1\n2\n3\n") || !strings.HasSuffix(all, "\n999999\n1000000\n") || len(all) != 6888896 {
		t.Errorf("%d bytes: %.20q", len(all), all)
	}
}

func TestInputThatNobodyReadsIsReportedAndSignalsStillGetThrough(t *testing.T) {
	_, client := start(t, newTerminals(t), Pipe, "echo ready; sleep 1000")
	readUntil(t, client, "ready")
	client.terminal.shell.hasStalled.Store(true) // as after inputWait
	if err := client.Write(make([]byte, 1<<20)); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("got %v", err)
	}
	if err := client.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	readAll(t, client)
	if err := client.Write([]byte("late")); err == nil {
		t.Error("a shell that has ended took input")
	}
}
