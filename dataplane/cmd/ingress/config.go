// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"opensandbox.io/dataplane/ingress"
)

// config is everything the program was told at its start.
type config struct {
	listen       []string
	api          string
	controlFD    int
	drop         *identity
	logLevel     slog.Level
	drainTimeout time.Duration
	limits       ingress.Limits
}

// identity is who to become.
type identity struct{ uid, gid int }

// errShown means that the flags asked for a text, and it was shown.
var errShown = errors.New("shown")

// parseFlags says everything it has to say to the user in the error, once.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	var isVersion bool
	flags := flag.NewFlagSet("ingress", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("listen", "listen on tcp://HOST:PORT, unix://PATH or fd://N; may be repeated (default tcp://127.0.0.1:8080)", func(value string) error {
		c.listen = append(c.listen, value)
		return nil
	})
	flags.StringVar(&c.api, "api", "", "where the API listens: unix:///PATH or tcp://HOST:PORT (required)")
	flags.IntVar(&c.controlFD, "control-fd", -1, "descriptor of the control channel, a unix stream socket (required)")
	flags.Func("drop", "become UID:GID with no other groups before anything else", func(value string) (err error) {
		c.drop, err = parseIdentity(value)
		return err
	})
	flags.DurationVar(&c.drainTimeout, "drain-timeout", 10*time.Second, "let open requests end for this long at the end")
	flags.IntVar(&c.limits.Connections, "max-connections", 0, "most connections of clients at once; 0 is what the process has descriptors for, at most 65536")
	flags.IntVar(&c.limits.PerPeer, "max-connections-per-peer", 0, "most of them from one address, except those of this machine; 0 is half of all")
	flags.TextVar(&c.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error; debug has a line for each request")
	flags.BoolVar(&isVersion, "version", false, "print the version")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		usage(flags, out)
		return c, errShown
	} else if err != nil {
		return c, err
	}
	if isVersion {
		fmt.Fprintln(out, "ingress", version)
		return c, errShown
	}
	if len(c.listen) == 0 {
		c.listen = []string{"tcp://127.0.0.1:8080"}
	}
	return c, c.check(flags.Args())
}

func (c config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.api == "":
		return errors.New("-api is missing: name where the API listens, like unix:///run/api.sock")
	case c.controlFD < 0:
		return errors.New("-control-fd is missing: the server that starts ingress gives it a socket")
	case c.controlFD < 3:
		return fmt.Errorf("-control-fd %d is not the number of an inherited descriptor", c.controlFD)
	case c.limits.Connections < 0 || c.limits.PerPeer < 0:
		return errors.New("-max-connections and -max-connections-per-peer must not be negative")
	case c.drainTimeout < 0:
		return errors.New("-drain-timeout must not be negative")
	}
	return nil
}

func parseIdentity(text string) (*identity, error) {
	uidText, gidText, _ := strings.Cut(text, ":")
	uid, uidErr := strconv.ParseUint(uidText, 10, 31)
	gid, gidErr := strconv.ParseUint(gidText, 10, 31)
	if uidErr != nil || gidErr != nil {
		return nil, errors.New("write it as UID:GID, two numbers")
	}
	return &identity{int(uid), int(gid)}, nil
}

func usage(flags *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "Usage: ingress -api unix:///PATH -control-fd N [flags]\n\n"+
		"The front door of a sandbox server: the one public port of its API and of its sandboxes. The\n"+
		"server starts it and says over the control channel what to serve. It ends when that channel does.\n\nFlags:\n")
	flags.SetOutput(out)
	flags.PrintDefaults()
}
