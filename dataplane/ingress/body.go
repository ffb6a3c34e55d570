// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// requestBody is the body of a request while it comes in. Its client must not be silent for longer than
// the limit: a byte in either direction gives it another one. The deadline also holds when nobody reads
// the body, for then http.Server does, before it answers.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	silence silence

	mu     sync.Mutex
	isOver bool // nothing more is read, and a silent client is one that waits for its answer
}

// watchBody puts the body of the request under the limit. A request without one has nothing to wait for.
func (x *exchange) watchBody() {
	if x.r.ContentLength == 0 || x.r.Body == nil || x.r.Body == http.NoBody {
		return
	}
	x.body = &requestBody{ReadCloser: x.r.Body, control: http.NewResponseController(x.w), silence: silence{limit: x.server.limit}}
	x.body.extend()
	x.r.Body = x.body
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// extend notes that something moved. It does nothing when there is no body.
func (b *requestBody) extend() {
	if b == nil {
		return
	}
	deadline, isDue := b.silence.isDue()
	if !isDue {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOver {
		_ = b.control.SetReadDeadline(deadline) // a connection that has none needs none
	}
}

// end leaves the connection to http.Server, without a deadline when the whole body has come.
func (b *requestBody) end(isWhole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOver = true
	if isWhole {
		_ = b.control.SetReadDeadline(time.Time{})
	}
}
