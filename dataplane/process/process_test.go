// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var table = NewTable(false)

func TestMain(m *testing.M) {
	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	go table.Reap(childExited)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		signal.Stop(childExited)
		close(childExited)
		os.Exit(code)
	}), goleak.IgnoreAnyFunction("opensandbox.io/dataplane/process.(*Table).Reap"),
		goleak.IgnoreAnyFunction("os/signal.loop"))
}

func start(t *testing.T, text string) *Process {
	t.Helper()
	p, err := table.Start(Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", text}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAnExitStatusComesFromWait(t *testing.T) {
	if exit := start(t, "exit 7").Exit(); exit.Code != 7 || exit.String() != "exit status 7" || exit.ShellStatus() != 7 {
		t.Errorf("got %+v", exit)
	}
	if exit := start(t, "kill -9 $$").Exit(); exit.Code != -1 || exit.Signal != syscall.SIGKILL || exit.ShellStatus() != 137 {
		t.Errorf("got %+v", exit)
	}
}

func TestManyProcessesAtOnceAllReportTheirOwnExit(t *testing.T) {
	var all []*Process
	for i := range 100 {
		all = append(all, start(t, "exit "+string(rune('0'+i%10))))
	}
	for i, p := range all {
		if exit := p.Exit(); exit.Code != i%10 {
			t.Errorf("process %d: %+v", i, exit)
		}
	}
}

func TestAnEndedProcessCannotBeSignalled(t *testing.T) {
	p := start(t, "true")
	p.Exit()
	if err := p.SignalGroup(syscall.SIGKILL); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}

func TestAnAdoptedProcessThatWasReapedBeforeHasEnded(t *testing.T) {
	p := start(t, "exit 0")
	p.Exit()
	if exit := table.Adopt(p.PID()).Exit(); exit.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", exit)
	}
}

func TestAGroupEndsWithItsLeaderWhereThatIsWanted(t *testing.T) {
	for endsGroup, timeout := range map[bool]time.Duration{true: 20 * time.Second, false: 200 * time.Millisecond} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		leader, err := table.Start(Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", "sleep 1000 & echo $!"}, Env: os.Environ(),
			Files: []*os.File{nil, write}, EndsGroup: endsGroup})
		_ = write.Close()
		if err != nil {
			t.Fatal(err)
		}
		leader.Exit()
		_ = read.SetReadDeadline(time.Now().Add(timeout))
		words, err := io.ReadAll(read) // to its end, which comes when both processes have gone
		if isOver := err == nil; isOver != endsGroup {
			t.Errorf("with EndsGroup %v: %v after %q", endsGroup, err, words)
		}
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(words))); pid > 0 && !endsGroup {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = read.Close()
	}
}

func TestTerminateKillsWhatIgnoresTerm(t *testing.T) {
	ours, childs, err := OutputPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	p, err := table.Start(Spec{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"},
		Env: os.Environ(), Files: []*os.File{nil, childs, childs},
	})
	childs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := Terminate(p, nil, 1); err != nil {
		t.Fatal(err)
	}
	if exit := p.Exit(); exit.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", exit)
	}
}

func TestTheEnvironmentIsBuiltFromWeakToStrong(t *testing.T) {
	file := t.TempDir() + "/env"
	if err := os.WriteFile(file, []byte("A=file\nB=file\nC=$A-x\nOPENSANDBOX_ID=fake\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := NewEnviron([]string{"A=base", "D=base", "OPENSANDBOX_ID=real"}, file)
	got := e.For(nil, map[string]string{"B": "request", "OPENSANDBOX_ID": "other"})
	want := map[string]string{"A": "file", "B": "request", "C": "file-x", "D": "base", "OPENSANDBOX_ID": "real", "EXECD_ENVS": file, "PATH": defaultPath}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestTheEnvFileFollowsTheContract(t *testing.T) {
	text := strings.Join([]string{
		"# comment", "", "PLAIN=  spaced  ", `DOUBLE="a\tb\n\"q\" $PLAIN"`, `SINGLE='$PLAIN`, `second line'`,
		"export EXPORTED=1", "malformed", "1BAD=x", `OPEN="never closed`, "AFTER=${PLAIN}!", `PRICE=5$`, `EMPTY=`, `Q='it' # note`,
	}, "\n")
	vars := map[string]string{}
	parseEnvFile(text, vars)
	want := map[string]string{
		"PLAIN": "spaced", "DOUBLE": "a\tb\n\"q\" spaced", "SINGLE": "$PLAIN\nsecond line", "EXPORTED": "1",
		"AFTER": "spaced!", "PRICE": "5$", "EMPTY": "", "Q": "it",
	}
	if !maps.Equal(vars, want) {
		t.Errorf("got %q", vars)
	}
}

func FuzzEnvFile(f *testing.F) {
	f.Add("A=1\nB='x\ny'\nC=\"\\n$A\"\n#\nexport D=$B")
	f.Fuzz(func(t *testing.T, text string) {
		vars := map[string]string{}
		parseEnvFile(text, vars)
		for name := range vars {
			if !IsVariableName(name) {
				t.Fatalf("name %q from %q", name, text)
			}
		}
	})
}

func TestPathsExpandOnlyWhatIsSet(t *testing.T) {
	vars := map[string]string{"HOME": "/home/u", "X": "x"}
	for in, want := range map[string]string{"~": "/home/u", "~/a": "/home/u/a", "/a/$X/${X}b": "/a/x/xb", "/a~": "/a~", "/$": "/$"} {
		if got, err := ExpandPath(in, vars); err != nil || got != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"$UNSET/a", "a\x00b"} {
		if got, err := ExpandPath(in, vars); err == nil {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got, err := ExpandPath("~", nil); err == nil {
		t.Errorf("~ without HOME became %q", got)
	}
}
