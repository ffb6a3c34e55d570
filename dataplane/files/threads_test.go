// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"
)

func TestThreadsForIdentitiesAreBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	var running, begun sync.WaitGroup
	release := make(chan struct{})
	for range 32 {
		begun.Add(1)
		running.Go(func() {
			_ = As(1000, 1000, nil, func() error { begun.Done(); <-release; return nil })
		})
	}
	begun.Wait()
	threadWait = 0
	defer func() { threadWait = 10 * time.Second }()
	err := As(1000, 1000, nil, func() error { return nil })
	close(release)
	running.Wait()
	if !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
}
