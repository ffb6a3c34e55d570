// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestARequestReachesTheApplicationByEveryForm(t *testing.T) {
	w, e := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %s", r.Method, r.RequestURI, body)
	})
	name := testID + "-" + strconv.Itoa(port)
	const rest = "/a%2Fb//c;d?x=1&y=%zz;z"
	for _, c := range [][]string{
		{proxyPath(port, rest)},
		{strings.TrimPrefix(proxyPath(port, rest), "/v1")},
		{"/" + testID + "/" + strconv.Itoa(port) + rest},
		{rest, "Host", name + ".localhost:8080"},
		{rest, "OpenSandbox-Ingress-To", name},
		{rest, "OPEN-SANDBOX-INGRESS", name},
	} {
		got := w.raw("POST " + c[0] + " HTTP/1.1\r\n" + rawHeaders(c[1:]) + "Content-Length: 4\r\nConnection: close\r\n\r\nbody")
		if !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.HasSuffix(got, "POST "+rest+" body") {
			t.Errorf("%v: %s", c, got)
		}
	}
	if _, asked := e.connects.Load("127.0.0.1:" + strconv.Itoa(port)); !asked {
		t.Error("not through the tunnel")
	}
}

func rawHeaders(headers []string) string {
	text := "Host: h\r\n"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			text = "Host: " + headers[i+1] + "\r\n"
		} else {
			text += headers[i] + ": " + headers[i+1] + "\r\n"
		}
	}
	return text
}

func TestTheAPIGetsTheRest(t *testing.T) {
	w, _ := standard(t, nil)
	for _, path := range []string{"/", "/v1/sandboxes", "/health", "/sandboxes/" + testID} {
		if got := w.do("GET", path); got.body != "api "+path {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	if got := w.do("GET", "/status.ok"); got.StatusCode != 200 || got.body != "OK\n" {
		t.Errorf("status.ok: %d %s", got.StatusCode, got.body)
	}
}

func TestAServerThatIsAwayIsReported(t *testing.T) {
	w := newWorld(t, nil)
	server, err := newServer("unix:///nowhere/api.sock", w.server.log, SilenceLimit)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, server)
	w.address = listener.Addr().String()
	got := w.do("GET", "/v1/sandboxes")
	got.want(t, 503, codeServerUnavailable)
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestFailuresOfTheSandboxHaveTheirCodes(t *testing.T) {
	w := newImpatientWorld(t, nil, 300*time.Millisecond)
	e := newExecd(t, nil)
	w.configure(nil)
	w.put(e, nil)
	w.do("GET", "/sandboxes/"+strings.Replace(testID, "0", "1", 1)+"/proxy/80").want(t, 404, codeNotFound)
	w.do("GET", proxyPath(1, "/")).want(t, 502, codeConnectionFailed)

	silent := rawApp(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	w.do("GET", proxyPath(silent, "/")).want(t, 504, codeTimeout)
	nonsense := rawApp(t, func(c net.Conn) { readHead(c); io.WriteString(c, "220 smtp\r\n") })
	w.do("GET", proxyPath(nonsense, "/")).want(t, 502, codeResponseFailed)
	hangup := rawApp(t, func(c net.Conn) { readHead(c) })
	w.do("GET", proxyPath(hangup, "/")).want(t, 502, codeResponseFailed)
	switching := rawApp(t, func(c net.Conn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	})
	w.do("GET", proxyPath(switching, "/")).want(t, 502, codeResponseFailed)
	low := rawApp(t, func(c net.Conn) { readHead(c); io.WriteString(c, "HTTP/1.1 007 Bond\r\nContent-Length: 0\r\n\r\n") })
	w.do("GET", proxyPath(low, "/")).want(t, 502, codeResponseFailed)
	long := rawApp(t, func(c net.Conn) {
		readHead(c)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Long: %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 1<<20))
	})
	w.do("GET", proxyPath(long, "/")).want(t, 502, codeResponseFailed)

	w.mustTell("put", map[string]any{"route": routeTo(e, map[string]any{"socket": "/nowhere/execd.sock"})})
	w.do("GET", proxyPath(execdPort, "/"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 502, codeConnectionFailed)
	w.put(e, map[string]any{"execdToken": "not what execd wants"})
	w.do("GET", proxyPath(8080, "/")).want(t, 502, codeConnectionFailed)
}

func readHead(c net.Conn) *http.Request {
	r, _ := http.ReadRequest(bufio.NewReader(c))
	return r
}

func TestSilenceCountsBetweenBytes(t *testing.T) {
	const limit = 400 * time.Millisecond
	w := newImpatientWorld(t, nil, limit)
	e := newExecd(t, nil)
	w.configure(nil)
	w.put(e, nil)
	// Slower than the limit as a whole, never silent for as long.
	drip := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		for range 8 {
			time.Sleep(limit / 4)
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
		}
	})
	if got := w.do("GET", proxyPath(drip, "/")); got.body != "xxxxxxxx" {
		t.Errorf("got %q", got.body)
	}
	sink := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Write(body)
	})
	reader, writer := io.Pipe()
	go func() {
		for range 8 {
			time.Sleep(limit / 4)
			io.WriteString(writer, "y")
		}
		writer.Close()
	}()
	if got := w.doBody("POST", proxyPath(sink, "/"), reader); got.body != "yyyyyyyy" {
		t.Errorf("got %d %q", got.StatusCode, got.body)
	}
}

func TestAResponseThatBreaksOffLooksBroken(t *testing.T) {
	w, _ := standard(t, nil)
	for _, head := range []string{"Content-Length: 100\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		port := rawApp(t, func(c net.Conn) { readHead(c); io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head) })
		response, err := w.client.Get("http://" + w.address + proxyPath(port, "/"))
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil {
			t.Errorf("%q looked whole", head)
		}
	}
}

func TestAStreamIsPassedOnAsItComes(t *testing.T) {
	step := make(chan struct{})
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" {
			rw.Header().Set("Content-Type", "text/event-stream")
		}
		rw.(http.Flusher).Flush()
		for i := range 3 {
			<-step
			fmt.Fprintf(rw, "event %d\n", i)
			rw.(http.Flusher).Flush()
		}
	})
	for _, path := range []string{"/sse", "/unknown-length"} {
		response, err := w.client.Get("http://" + w.address + proxyPath(port, path))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(response.Body)
		for i := range 3 {
			step <- struct{}{} // the next event is only sent when the one before was read
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("event %d\n", i) {
				t.Fatalf("%s: %q %v", path, line, err)
			}
		}
		response.Body.Close()
	}
}

func TestAnUploadIsPassedOnAsItComes(t *testing.T) {
	got := make(chan string)
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 10)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				got <- string(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	})
	reader, writer := io.Pipe()
	var sent sync.WaitGroup
	sent.Go(func() { w.doBody("POST", proxyPath(port, "/"), reader).want(t, 200, "") })
	for i := range 3 {
		part := strconv.Itoa(i)
		io.WriteString(writer, part)
		if read := <-got; read != part {
			t.Errorf("got %q, want %q", read, part)
		}
	}
	writer.Close()
	sent.Wait()
}

func TestAClientThatLeavesEndsTheRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+w.address+proxyPath(port, "/"), nil)
	go func() { <-began; cancel() }()
	if _, err := w.client.Do(r); err == nil {
		t.Error("the request did not fail")
	}
	<-ended
}

func TestALongBodyForTheAPIIsCutWhateverItSaysOfItsLength(t *testing.T) {
	var got atomic.Int64
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
	})
	w.configure(nil)
	body := func(size int) io.Reader { return bytes.NewReader(make([]byte, size)) }
	chunked := func(size int) io.Reader { return io.MultiReader(body(size)) }
	w.doBody("POST", "/v1/sandboxes", chunked(64<<20)).want(t, 413, codeBodyTooLong)
	w.doBody("POST", "/v1/sandboxes", body(maxAPIBody+1)).want(t, 413, codeBodyTooLong)
	if n := got.Load(); n > maxAPIBody {
		t.Errorf("the API got %d bytes", n)
	}
	for _, whole := range []io.Reader{body(maxAPIBody), chunked(maxAPIBody)} {
		w.doBody("POST", "/v1/sandboxes", whole).want(t, 200, "")
		if n := got.Load(); n != maxAPIBody {
			t.Errorf("the API got %d bytes", n)
		}
	}
}

func TestAnEarlyAnswerToAnUploadArrives(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		http.Error(rw, "too large", http.StatusRequestEntityTooLarge)
	})
	w.doBody("POST", proxyPath(port, "/"), bytes.NewReader(make([]byte, 100<<10))).want(t, 413, "")
}

func TestExpectContinueIsPassedOn(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") == "100-continue" {
			io.Copy(rw, r.Body)
		}
	})
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST "+proxyPath(port, "/")+" HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	reader := bufio.NewReader(conn)
	if line, _ := reader.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("got %q", line)
	}
	reader.ReadString('\n')
	io.WriteString(conn, "body")
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); string(body) != "body" {
		t.Errorf("got %q", body)
	}
}

func TestConnectionsAreUsedAgainAndGoWithTheRoute(t *testing.T) {
	var opened, closed atomic.Int32
	count := func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	w := newWorld(t, nil)
	w.configure(nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ConnState: count, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(listener)
	defer server.Close()
	w.mustTell("put", map[string]any{"route": map[string]any{"id": testID, "tcp": listener.Addr().String(), "state": "running", "execdToken": testToken}})
	for range 20 {
		w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 200, "")
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 20 requests in turn", n)
	}
	// The same place under another state keeps its connections; a removed one does not.
	for _, state := range []string{"paused", "running"} {
		w.mustTell("put", map[string]any{"route": map[string]any{"id": testID, "tcp": listener.Addr().String(), "state": state, "execdToken": testToken}})
	}
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 200, "")
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections after pause and resume", n)
	}
	w.mustTell("delete", map[string]any{"id": testID})
	for ctx := testContext(t); closed.Load() == 0; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("the connection stays")
		}
	}
}

func TestTheAccessLogNamesRequestAndSandboxButNoSecret(t *testing.T) {
	w, _ := standard(t, nil)
	w.do("GET", proxyPath(execdPort, "/ping?token=query-secret"), "X-EXECD-ACCESS-TOKEN", testToken, "X-Request-ID", "req-1").want(t, 200, "")
	expires := expiresIn(time.Hour)
	w.do("GET", "/"+testID+"/80/"+expires+"/"+fullShape+"/x")
	logs := w.logs.String()
	for ctx := testContext(t); !strings.Contains(logs, `"path":"/x"`); logs = w.logs.String() { // the line follows the answer
		if ctx.Err() != nil {
			t.Fatalf("no line: %s", logs)
		}
		time.Sleep(time.Millisecond)
	}
	if !strings.Contains(logs, `"request_id":"req-1","sandbox_id":"`+testID+`","port":44772`) {
		t.Errorf("logs: %s", logs)
	}
	for _, secret := range []string{testToken, "query-secret", fullShape, testKey} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log has %q: %s", secret, logs)
		}
	}
}
