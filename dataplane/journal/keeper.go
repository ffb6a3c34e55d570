// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"slices"
	"sync"
)

// KeptBytes bounds the journals of ended runs of a daemon, of commands and sessions together.
const KeptBytes = 256 << 20

// Keeper bounds what the journals of ended runs take: the oldest are discarded first. The one that
// came last is always kept.
type Keeper struct {
	limit int64

	mu   sync.Mutex
	kept []*Journal // oldest first
}

// NewKeeper keeps at most limit bytes.
func NewKeeper(limit int64) *Keeper { return &Keeper{limit: limit} }

// Add takes the journal of a run that has ended. All are counted again, because a journal grows after the
// end of its run when a process of it lives on.
func (k *Keeper) Add(j *Journal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(slices.DeleteFunc(k.kept, (*Journal).hasGone), j)
	total := int64(0)
	for _, journal := range k.kept {
		total += journal.Kept()
	}
	for i := 0; total > k.limit && i < len(k.kept)-1; i++ {
		total -= k.kept[i].Kept()
		k.kept[i].Discard()
	}
}

func (j *Journal) hasGone() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.isDiscarded
}
