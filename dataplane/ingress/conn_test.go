// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"testing"
	"time"
)

func TestAPeerThatStopsReadingIsGivenUp(t *testing.T) {
	ours, theirs := socketPair(t)
	defer ours.Close()
	defer theirs.Close()
	conn := &stallConn{Conn: ours, silence: silence{limit: 50 * time.Millisecond}}
	part := make([]byte, 64<<10)
	for {
		if _, err := conn.Write(part); err != nil {
			if !isTimeout(err) {
				t.Errorf("got %v", err)
			}
			return
		}
	}
}

func TestAStalledClientDoesNotHoldARequestForever(t *testing.T) {
	w := newWorld(t, nil)
	ours, theirs := socketPair(t)
	defer theirs.Close()
	conn := (&listener{server: w.server}).admit(ours)
	defer conn.Close()
	if guarded, ok := conn.(*clientConn); !ok || guarded.silence.limit != SilenceLimit {
		t.Errorf("accepted %T", conn)
	}
}

func TestADeadlineMovesWithEveryByteButNotTooOften(t *testing.T) {
	s := silence{limit: time.Hour}
	if _, isDue := s.isDue(); !isDue {
		t.Error("the first is not due")
	}
	if _, isDue := s.isDue(); isDue {
		t.Error("due again at once")
	}
	eager := silence{limit: 0}
	for range 2 {
		if deadline, isDue := eager.isDue(); !isDue || time.Until(deadline) > time.Second {
			t.Errorf("got %v %v", deadline, isDue)
		}
	}
}
