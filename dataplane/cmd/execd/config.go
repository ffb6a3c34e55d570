// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"opensandbox.io/dataplane/execd"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// config is everything the daemon was told at its start.
type config struct {
	listen        []string
	tokenFile     string
	tokenFD       int
	tokenSHA256   *execd.TokenHash
	commandsFD    int
	oomScore      *process.OOMScore
	stateDir      string
	journalLimit  int64
	logLevel      slog.Level
	isTraceable   bool
	shutdownGrace time.Duration
	entrypoint    []string
	environ       []string
}

// errShown means that the flags asked for a text, and it was shown.
var errShown = errors.New("shown")

// tokenVariable and its flag are how other daemons of this protocol take the token. Both can be read
// by the commands in the sandbox.
const tokenVariable = "EXECD_ACCESS_TOKEN"

func parseFlags(args, environ []string, out io.Writer) (config, error) {
	c := config{environ: environ, tokenFD: -1, commandsFD: -1}
	flags := flag.NewFlagSet("execd", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { usage(flags, out) }
	var port, level int
	var token string
	var isVersion bool
	flags.IntVar(&port, "port", 0, "listen on this TCP port on all addresses (44772 when nothing else is asked for)")
	flags.Func("listen", "listen on tcp://HOST:PORT, unix://PATH or fd://N; may be repeated", func(value string) error {
		c.listen = append(c.listen, value)
		return nil
	})
	flags.StringVar(&c.tokenFile, "access-token-file", "", "read the access token from this file")
	flags.IntVar(&c.tokenFD, "access-token-fd", -1, "read the access token from this inherited descriptor")
	flags.Func("access-token-sha256", "the SHA-256 of the access token, in hex; who reads it cannot tell the token", func(value string) error {
		hash, err := hex.DecodeString(value)
		if err != nil || len(hash) != len(execd.TokenHash{}) {
			return errors.New("it must be 64 digits of hex")
		}
		c.tokenSHA256 = (*execd.TokenHash)(hash)
		return nil
	})
	flags.IntVar(&c.commandsFD, "commands-cgroup-fd", -1, "start everything in the cgroup whose file tasks or cgroup.threads is this inherited descriptor")
	flags.StringVar(&token, "access-token", "", "refused, because commands could read it: use -access-token-file, -access-token-fd or -access-token-sha256")
	flags.StringVar(&c.stateDir, "state-dir", "", "keep journals in this directory (default: a temporary one)")
	flags.Int64Var(&c.journalLimit, "journal-limit", journal.DefaultLimit, "keep at most this many bytes of the output of one command")
	flags.IntVar(&level, "log-level", 6, "how much to log, from 0 (least) to 7 (most)")
	flags.DurationVar(&c.shutdownGrace, "graceful-shutdown-timeout", time.Second, "let open requests end for this long at the end")
	flags.BoolVar(&c.isTraceable, "traceable", false, "let other processes look into this one, to debug it: they can then read the token")
	flags.BoolVar(&isVersion, "version", false, "print the version")
	for _, name := range []string{"jupyter-host", "jupyter-token", "jupyter-idle-poll-interval"} {
		flags.String(name, "", "accepted for compatibility and not used: there is no Jupyter server")
	}
	if err := applyEnvironment(flags, environ); err != nil {
		return c, err
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, errShown
		}
		return c, err
	}
	if isVersion {
		fmt.Fprintln(os.Stdout, "execd", version)
		return c, errShown
	}
	c.entrypoint = flags.Args()
	c.logLevel = logLevel(level)
	if port != 0 || len(c.listen) == 0 {
		if port == 0 {
			port = 44772
		}
		c.listen = append(c.listen, "tcp://0.0.0.0:"+strconv.Itoa(port))
	}
	return c, c.check(token)
}

func (c config) check(token string) error {
	switch {
	case token != "":
		return errors.New("-access-token would show the token to every command in /proc; use -access-token-file, -access-token-fd or -access-token-sha256")
	case c.tokenSources() > 1:
		return errors.New("give one of -access-token-file, -access-token-fd and -access-token-sha256")
	case c.journalLimit < 1:
		return errors.New("-journal-limit must be positive")
	case c.shutdownGrace < 0:
		return errors.New("-graceful-shutdown-timeout must not be negative")
	}
	return nil
}

// tokenSources counts the flags that say which token to ask for.
func (c config) tokenSources() int {
	count := 0
	for _, isGiven := range []bool{c.tokenFile != "", c.tokenFD >= 0, c.tokenSHA256 != nil} {
		if isGiven {
			count++
		}
	}
	return count
}

// applyEnvironment takes the settings that the contract also names as variables.
func applyEnvironment(flags *flag.FlagSet, environ []string) error {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case tokenVariable:
			return fmt.Errorf("%s would show the token to every command in /proc; use -access-token-file, -access-token-fd or -access-token-sha256", name)
		case "EXECD_API_GRACE_SHUTDOWN":
			if err := flags.Set("graceful-shutdown-timeout", value); err != nil {
				return fmt.Errorf("%s=%s is not a duration like 1s: %w", name, value, err)
			}
		}
	}
	return nil
}

func usage(flags *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "Usage: execd [flags] [-- entrypoint [argument…]]\n\n"+
		"The daemon inside a sandbox. With an entrypoint it runs that program, forwards signals to it\n"+
		"and exits with its status.\n\nFlags:\n")
	flags.PrintDefaults()
}

// logLevel maps the contract's scale, that of syslog, to slog's.
func logLevel(level int) slog.Level {
	switch {
	case level <= 3:
		return slog.LevelError
	case level == 4:
		return slog.LevelWarn
	case level <= 6:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
