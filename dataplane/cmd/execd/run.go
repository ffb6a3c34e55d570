// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/execd"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/kernel"
	"opensandbox.io/dataplane/listen"
	"opensandbox.io/dataplane/metrics"
	"opensandbox.io/dataplane/process"
	"opensandbox.io/dataplane/session"
	"opensandbox.io/dataplane/terminal"
)

const (
	defaultEnvFile = "/opt/opensandbox/.env"
	// headerTimeout bounds how long a connection may take to send the head of a request.
	headerTimeout = 60 * time.Second
	// reservedThreads is how many requests can wait for the kernel at once when the machine has no
	// thread left for us.
	reservedThreads = 24
)

// errEntrypoint says that the entrypoint could not be started.
var errEntrypoint = errors.New("entrypoint")

// run serves until the entrypoint ends, or without one until a signal asks it to. It returns the
// status to exit with. childExited and received come from signal.Notify.
func run(ctx context.Context, c config, childExited, received chan os.Signal) (int, error) {
	out := newLogWriter(os.Stderr)
	defer out.close()
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: c.logLevel}))
	reserved := make(chan struct{})
	go func() { // beside what follows: it takes a millisecond
		defer close(reserved)
		if c.commandsFD >= 0 {
			process.ReserveThreads(reservedThreads)
		}
	}()
	token, err := tokenHash(c)
	if err != nil {
		return 0, err
	}
	listeners, err := listen.All(c.listen)
	if err != nil {
		return 0, err
	}
	defer listen.Close(listeners)
	stateDir, removeState, err := openStateDir(c.stateDir)
	if err != nil {
		return 0, err
	}
	defer removeState()

	table := process.NewTable(true)
	if c.commandsFD >= 0 {
		if err := table.Confine(os.NewFile(uintptr(c.commandsFD), "commands"), c.oomScore); err != nil {
			return 0, err
		}
	}
	defer table.KillAll() // nothing we started outlives us
	go table.Reap(childExited)
	if os.Getpid() != 1 {
		if err := process.BecomeSubreaper(); err != nil {
			log.Warn("orphans will not be reaped", "error", err)
		}
	}
	environ := process.NewEnviron(c.environ, envFile(c.environ, stateDir))
	environ.PutFirst(chooseVersions(c.environ, versionsDir, log))
	keep := journal.NewKeeper(journal.KeptBytes)
	sessions := session.New(table, environ, stateDir, c.journalLimit, keep)
	server := &execd.Server{
		Token:     token,
		SandboxID: os.Getenv("OPENSANDBOX_ID"),
		Environ:   environ,
		Commands:  command.New(table, stateDir, c.journalLimit, keep, log),
		Sessions:  sessions,
		Contexts:  kernel.New(table, environ, sessions, stateDir, log),
		Terminals: terminal.New(table, environ),
		Metrics:   metrics.NewMeter("/"),
		Log:       log,
	}
	defer server.Close()
	<-reserved // before anything of the sandbox runs: what uses up all threads may be its first program
	return serve(ctx, c, server, listeners, table, received)
}

// serve answers on every listener while the entrypoint runs. The entrypoint starts first: whoever gets
// an answer knows that it could be started.
func serve(ctx context.Context, c config, server *execd.Server, listeners []net.Listener, table *process.Table, received <-chan os.Signal) (int, error) {
	httpServer := &http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: headerTimeout,
		// OPTIONS * is a request like others and needs the token.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(server.Log.Handler(), slog.LevelDebug),
	}
	var pending listen.PendingConns
	pending.Watch(httpServer)
	main, err := startEntrypoint(c.entrypoint, server.Environ, table)
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	var accepting sync.WaitGroup
	queues := make([]*listen.Queue, 0, len(listeners))
	for _, listener := range listeners {
		server.Log.Info("listening", "address", listener.Addr().String(), "version", version)
		queue := &listen.Queue{Listener: listener}
		queues = append(queues, queue)
		accepting.Add(1)
		group.Go(func() error {
			defer accepting.Done()
			if err := httpServer.Serve(queue); !errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("serve %s: %w", listener.Addr(), err)
			}
			return nil
		})
	}
	status := 0
	group.Go(func() error {
		status = supervise(ctx, main, server.Log, received)
		ending, cancel := context.WithTimeout(context.Background(), c.shutdownGrace)
		defer cancel()
		// However short the entrypoint lived: who asked before its end gets an answer.
		for _, queue := range queues {
			queue.Finish(c.shutdownGrace)
		}
		accepting.Wait()
		pending.Wait(ending)
		shutdown(ending, httpServer)
		return nil
	})
	return status, group.Wait()
}

// supervise forwards signals to the entrypoint and returns its status. Without one it returns at the
// first signal that asks to end.
func supervise(ctx context.Context, main *process.Process, log *slog.Logger, received <-chan os.Signal) int {
	var ended <-chan struct{}
	if main != nil {
		ended = main.Done()
	}
	for {
		select {
		case <-ended:
			log.Info("entrypoint ended", "reason", main.Exit().String())
			return main.Exit().ShellStatus()
		case <-ctx.Done():
			return 0 // a listener failed; its error is the group's
		case sig := <-received:
			if main != nil {
				_ = main.Signal(sig.(syscall.Signal)) // it may have ended in this moment
			} else if sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGQUIT {
				log.Info("ending", "signal", sig.String())
				return 0
			}
		}
	}
}

// startEntrypoint starts the sandbox's own program; nil when there is none.
func startEntrypoint(argv []string, environ *process.Environ, table *process.Table) (*process.Process, error) {
	if len(argv) == 0 {
		return nil, nil
	}
	vars := environ.For(nil, nil)
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntrypoint, err)
	}
	path, err := process.FindProgram(argv[0], vars, dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntrypoint, err)
	}
	main, err := table.Start(process.Spec{
		Path: path, Argv: argv, Env: process.List(vars), Dir: dir,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// A program in the background of a terminal is stopped when it reads.
		Foreground: hasTerminal(),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntrypoint, err)
	}
	return main, nil
}

// hasTerminal says whether our standard input is our controlling terminal and we are in its foreground.
func hasTerminal() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// shutdown gives open requests until the end of ctx, then cuts them.
func shutdown(ctx context.Context, server *http.Server) {
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// tokenHash returns the hash of the access token, nil when there is none.
func tokenHash(c config) (*execd.TokenHash, error) {
	if c.tokenSHA256 != nil {
		return c.tokenSHA256, nil
	}
	token, err := readToken(c)
	if err != nil || token == "" {
		return nil, err
	}
	hash := execd.HashToken(token)
	return &hash, nil
}

// readToken reads the access token and leaves nothing of it for others to read.
func readToken(c config) (string, error) {
	var text []byte
	var err error
	switch {
	case c.tokenFile != "":
		text, err = os.ReadFile(c.tokenFile)
	case c.tokenFD >= 0:
		file := os.NewFile(uintptr(c.tokenFD), "token")
		if file == nil {
			return "", fmt.Errorf("read access token: descriptor %d is not open", c.tokenFD)
		}
		defer file.Close()
		text, err = io.ReadAll(io.LimitReader(file, 64<<10))
	default:
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read access token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("read access token: it is empty; leave the flag out to run without a token")
	}
	return token, nil
}

// openStateDir makes the directory for journals. A temporary one is removed at the end.
func openStateDir(dir string) (string, func(), error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("state directory: %w", err)
		}
		removeLeftovers(dir)
		return dir, func() {}, nil
	}
	for _, parent := range []string{os.TempDir(), "/dev/shm", "/run", "/var/tmp", "/"} {
		if made, err := os.MkdirTemp(parent, "execd-"); err == nil {
			return made, func() { _ = os.RemoveAll(made) }, nil
		}
	}
	return "", nil, errors.New("state directory: no place to write to; name one with -state-dir")
}

// removeLeftovers removes what a daemon that was killed could not.
func removeLeftovers(dir string) {
	_ = os.RemoveAll(filepath.Join(dir, "runners")) // perhaps of another version
	for _, pattern := range []string{"*.journal", "*.text", "*.sh"} {
		left, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails only for a bad pattern
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
}

// envFile is the path of the file that set_env appends to, made when it is missing.
func envFile(environ []string, stateDir string) string {
	for _, variable := range environ {
		if path, ok := strings.CutPrefix(variable, "EXECD_ENVS="); ok && path != "" {
			touch(path)
			return path
		}
	}
	if touch(defaultEnvFile) {
		return defaultEnvFile
	}
	path := filepath.Join(stateDir, "env")
	touch(path)
	return path
}

// touch makes sure that path can be appended to.
func touch(path string) bool {
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return false
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return false
	}
	return file.Close() == nil
}
