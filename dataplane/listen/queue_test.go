// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

func forEachNetwork(t *testing.T, test func(t *testing.T, q *Queue)) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": ""} {
		t.Run(network, func(t *testing.T) {
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			listener, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			test(t, &Queue{Listener: listener})
		})
	}
}

func dial(t *testing.T, q *Queue) net.Conn {
	t.Helper()
	conn, err := net.Dial(q.Addr().Network(), q.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestWhoWaitedBeforeTheEndIsAnswered(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, q *Queue) {
		var waiting []net.Conn
		for range 50 {
			conn := dial(t, q)
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, conn)
		}
		q.Finish(time.Minute)
		server := &http.Server{Handler: http.NotFoundHandler()}
		var pending PendingConns
		pending.Watch(server)
		if err := server.Serve(q); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
		pending.Wait(t.Context())
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for _, conn := range waiting {
			if said, _ := io.ReadAll(conn); len(said) == 0 {
				t.Error("one was not answered")
			}
		}
		if _, err := net.Dial(q.Addr().Network(), q.Addr().String()); err == nil {
			t.Error("it still listens")
		}
	})
}

func TestAConnectionThatAsksNothingIsNotWaitedForBeyondTheLimit(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, q *Queue) {
		server := &http.Server{Handler: http.NotFoundHandler()}
		var pending PendingConns
		pending.Watch(server)
		silent := dial(t, q)
		q.Finish(time.Minute)
		_ = server.Serve(q)
		limit, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		pending.Wait(limit)
		silent.Close()
		pending.Wait(t.Context())
		_ = server.Close()
	})
}

func TestAnAcceptThatWaitsEndsToo(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, q *Queue) {
		ended := make(chan error)
		go func() {
			conn, err := q.Accept()
			if err == nil {
				conn.Close()
				_, err = q.Accept()
			}
			ended <- err
		}()
		dial(t, q)
		q.Finish(time.Minute)
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTimeEndsItHoweverManyWait(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, q *Queue) {
		dial(t, q)
		q.Finish(0)
		if _, err := q.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
