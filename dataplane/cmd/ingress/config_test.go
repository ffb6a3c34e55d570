// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFlagsAreRead(t *testing.T) {
	c, err := parseFlags(strings.Fields("--api unix:///a --control-fd 5 --listen tcp://127.0.0.1:0 --listen fd://4 --drop 12:34 --log-level debug --drain-timeout 2s"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if c.api != "unix:///a" || c.controlFD != 5 || !slices.Equal(c.listen, []string{"tcp://127.0.0.1:0", "fd://4"}) ||
		*c.drop != (identity{12, 34}) || c.logLevel != slog.LevelDebug || c.drainTimeout != 2*time.Second {
		t.Errorf("got %+v", c)
	}
}

func TestOnlyLoopbackIsListenedOnByDefault(t *testing.T) {
	c, err := parseFlags([]string{"--api", "/a", "--control-fd", "3"}, t.Output())
	if err != nil || !slices.Equal(c.listen, []string{"tcp://127.0.0.1:8080"}) || c.drop != nil {
		t.Errorf("got %+v %v", c, err)
	}
}

func TestABadFlagIsOneClearError(t *testing.T) {
	for args, says := range map[string]string{
		"":                                             "-api is missing",
		"--api /a":                                     "-control-fd is missing",
		"--api /a --control-fd 1":                      "not the number of an inherited descriptor",
		"--api /a --control-fd x":                      "-control-fd",
		"--api /a --control-fd 3 --drop root":          "UID:GID",
		"--api /a --control-fd 3 --drop 1":             "UID:GID",
		"--api /a --control-fd 3 --drop -1:1":          "UID:GID",
		"--api /a --control-fd 3 extra":                `unexpected argument "extra"`,
		"--api /a --control-fd 3 --drain-timeout -1s":  "must not be negative",
		"--api /a --control-fd 3 --max-connections -1": "must not be negative",
		"--api /a --control-fd 3 --log-level loud":     "-log-level",
		"--unknown":                                    "-unknown",
	} {
		_, err := parseFlags(strings.Fields(args), t.Output())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestHelpIsShown(t *testing.T) {
	var out strings.Builder
	if _, err := parseFlags([]string{"--help"}, &out); !errors.Is(err, errShown) || !strings.Contains(out.String(), "-control-fd") {
		t.Errorf("%v: %s", err, out.String())
	}
}
