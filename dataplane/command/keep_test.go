// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"log/slog"
	"testing"

	"opensandbox.io/dataplane/journal"
)

func TestWhatGrowsAfterTheEndOfItsCommandIsCounted(t *testing.T) {
	c := New(nil, t.TempDir(), journal.DefaultLimit, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for range 3 { // ended, and then something they started writes on
		cmd := &Command{Journal: journal.New(t.TempDir()+"/j", journal.DefaultLimit)}
		c.ended = append(c.ended, cmd)
		if err := cmd.Journal.Append(journal.Stdout, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	c.discardBeyond(2500)
	if c.ended[0].Journal.Kept() != 0 || c.ended[1].Journal.Kept() == 0 {
		t.Errorf("kept %d and %d", c.ended[0].Journal.Kept(), c.ended[1].Journal.Kept())
	}
}
