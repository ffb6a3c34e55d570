// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"path/filepath"
	"strconv"
	"testing"
)

func written(t *testing.T, dir string, number, size int) *Journal {
	t.Helper()
	j := New(filepath.Join(dir, strconv.Itoa(number)), DefaultLimit)
	if err := j.Append(Stdout, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestTheOldestJournalsMakeRoomAndTheLatestStays(t *testing.T) {
	keeper, dir := NewKeeper(2500), t.TempDir()
	var all []*Journal
	for i := range 3 {
		all = append(all, written(t, dir, i, 1000))
		keeper.Add(all[i])
	}
	if all[0].Kept() != 0 || all[1].Kept() == 0 || all[2].Kept() == 0 {
		t.Errorf("kept %d, %d and %d", all[0].Kept(), all[1].Kept(), all[2].Kept())
	}
	huge := written(t, dir, 3, 5000)
	keeper.Add(huge)
	if all[1].Kept() != 0 || all[2].Kept() != 0 || huge.Kept() == 0 {
		t.Errorf("kept %d, %d and %d", all[1].Kept(), all[2].Kept(), huge.Kept())
	}
}

func TestWhatGrowsAfterTheEndOfItsRunIsCounted(t *testing.T) {
	keeper, dir := NewKeeper(2500), t.TempDir()
	first, second := written(t, dir, 0, 1), written(t, dir, 1, 1)
	keeper.Add(first)
	keeper.Add(second)
	for _, j := range []*Journal{first, second} { // something they started writes on
		if err := j.Append(Stdout, make([]byte, 2000)); err != nil {
			t.Fatal(err)
		}
	}
	keeper.Add(written(t, dir, 2, 100))
	if first.Kept() != 0 || second.Kept() == 0 {
		t.Errorf("kept %d and %d", first.Kept(), second.Kept())
	}
}

func TestJournalsDiscardedByTheirOwnersAreForgotten(t *testing.T) {
	keeper, dir := NewKeeper(DefaultLimit), t.TempDir()
	for i := range 100 {
		j := written(t, dir, i, 10)
		keeper.Add(j)
		j.Discard()
	}
	if len(keeper.kept) > 1 {
		t.Errorf("%d are remembered", len(keeper.kept))
	}
}
