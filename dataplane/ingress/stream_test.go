// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"github.com/coder/websocket"
)

// streamSize is what a sandbox may move without our memory noticing.
const streamSize = 1 << 30

// zeros is a stream without content that watches the heap while it flows.
type zeros struct {
	left    int64
	watcher *heapWatcher
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	z.left -= int64(n)
	z.watcher.look(z.left)
	return n, nil
}

// heapWatcher knows the largest heap seen, and what earlier tests had left when it began to look.
type heapWatcher struct{ before, largest, lastLook int64 }

func (h *heapWatcher) look(position int64) {
	if h.lastLook != 0 && h.lastLook-position < 16<<20 {
		return
	}
	if h.before == 0 {
		runtime.GC()
	}
	h.lastLook = position
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	if h.before == 0 {
		h.before = int64(stats.HeapInuse)
	}
	h.largest = max(h.largest, int64(stats.HeapInuse))
}

func (h *heapWatcher) check(t *testing.T) {
	t.Helper()
	if h.largest == 0 || h.largest-h.before > 48<<20 {
		t.Errorf("the heap grew from %d to %d MiB", h.before>>20, h.largest>>20)
	}
}

func TestAGibibyteUpAndDownLeavesMemoryFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("moves more than 2 GiB")
	}
	var down heapWatcher
	serve := func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			io.WriteString(rw, strconv.FormatInt(n, 10))
			return
		}
		size, _ := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
		if r.URL.Path == "/known" {
			rw.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		}
		_, _ = io.Copy(rw, &zeros{size, &down})
	}
	w, _ := standard(t, serve)
	app := newApp(t, serve)
	headers := []string{"X-EXECD-ACCESS-TOKEN", testToken}
	for port, size := range map[int]int64{execdPort: streamSize, app: streamSize / 8} {
		var up heapWatcher
		if got := w.doBody("POST", proxyPath(port, "/"), &zeros{size, &up}, headers...); got.body != strconv.FormatInt(size, 10) {
			t.Errorf("port %d: %d %s bytes came", port, got.StatusCode, got.body)
		}
		up.check(t)
	}
	for _, c := range []struct {
		port int
		path string
		size int64
	}{{execdPort, "/unknown", streamSize / 8}, {app, "/unknown", streamSize / 8}, {app, "/known", streamSize}} {
		down = heapWatcher{}
		if n := w.download(proxyPath(c.port, c.path)+"?size="+strconv.FormatInt(c.size, 10), headers...); n != c.size {
			t.Errorf("%+v: %d bytes came", c, n)
		}
		down.check(t)
	}
}

func (w *world) download(path string, headers ...string) int64 {
	w.t.Helper()
	r, _ := http.NewRequest("GET", "http://"+w.address+path, nil)
	r.Header.Set(headers[0], headers[1])
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		w.t.Error(err)
	}
	return n
}

func TestALargeWebSocketMessageLeavesMemoryFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 64 MiB")
	}
	const size = 64 << 20
	w, _ := standard(t, nil)
	port := newApp(t, socketApp(t, nil, func(conn *websocket.Conn) {
		_, reader, err := conn.Reader(context.Background())
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, reader)
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(strconv.FormatInt(n, 10)))
	}))
	conn := w.mustDialSocket(proxyPath(port, "/"), nil)
	writer, err := conn.Writer(context.Background(), websocket.MessageBinary)
	if err != nil {
		t.Fatal(err)
	}
	var watcher heapWatcher
	if _, err := io.Copy(writer, &zeros{size, &watcher}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.Read(context.Background()); err != nil || string(got) != strconv.Itoa(size) {
		t.Errorf("%s bytes came, %v", got, err)
	}
	watcher.check(t)
}
