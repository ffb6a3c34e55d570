// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// startApp runs an application in the sandbox and returns its port.
func startApp(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	app := httptest.NewServer(handle)
	t.Cleanup(app.Close)
	_, port, _ := net.SplitHostPort(app.Listener.Addr().String())
	return port
}

// freePort is a port where nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	listener := listen(t, "tcp", "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	return port
}

// raw sends bytes on a connection of its own and reads the answer.
func raw(t *testing.T, network, address, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestAProxiedRequestArrivesAsItWasSent(t *testing.T) {
	d := startDaemon(t, "")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-App", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	})
	for target, want := range map[string]string{
		"":                        "/",
		"/":                       "/",
		"/a/b":                    "/a/b",
		"/a%2Fb/%e2%82%ac;v=1":    "/a%2Fb/%e2%82%ac;v=1",
		"//double/../dots/.":      "//double/../dots/.",
		"/q?a=1;b=2&c=%zz&&d=%20": "/q?a=1;b=2&c=%zz&&d=%20",
		"?x=y":                    "/?x=y",
		"/empty?":                 "/empty?",
		"/proxy/9/x":              "/proxy/9/x",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE"} {
			request := fmt.Sprintf("%s /proxy/%s%s HTTP/1.1\r\nHost: sandbox\r\nContent-Length: 4\r\n\r\nbody", method, port, target)
			response, body := raw(t, "tcp", d.addr, request)
			if body != method+" "+want+" body" || response.StatusCode != http.StatusTeapot || response.Header.Get("X-App") != "yes" {
				t.Errorf("%s %s: got %d %q", method, target, response.StatusCode, body)
			}
		}
	}
}

func TestTheTokenNeverReachesTheApplication(t *testing.T) {
	d := startDaemon(t, "secret")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) { _ = r.Write(w) })
	for _, extra := range []string{"", "Connection: close, X-Hop\r\nX-Hop: 1\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		request := "GET /proxy/" + port + "/ HTTP/1.1\r\nHost: sandbox\r\nx-execd-access-token: secret\r\nX-Kept: 1\r\nProxy-Authorization: x\r\n" + extra + "\r\n"
		response, body := raw(t, "tcp", d.addr, request)
		if response.StatusCode != 200 || !strings.Contains(body, "X-Kept: 1") {
			t.Errorf("got %d %s", response.StatusCode, body)
		}
		for _, hidden := range []string{"secret", "Execd", "X-Hop", "Proxy-Authorization"} {
			if strings.Contains(body, hidden) {
				t.Errorf("the application sees %s:\n%s", hidden, body)
			}
		}
	}
}

func TestTheApplicationLearnsWhoAsks(t *testing.T) {
	d := startDaemon(t, "")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s|%s|%s", r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"),
			r.Header.Get("X-Forwarded-Host"), r.Header.Get("Accept-Encoding"))
	})
	request := "GET /proxy/" + port + " HTTP/1.1\r\nHost: sandbox.example\r\n"
	for _, c := range []struct{ network, address, headers, want string }{
		{"tcp", d.addr, "", "sandbox.example|127.0.0.1|http|sandbox.example|"},
		{"unix", d.socket, "", "sandbox.example|127.0.0.1|http|sandbox.example|"},
		{"tcp", d.addr, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: outer\r\n", "sandbox.example|192.0.2.1, 127.0.0.1|https|outer|"},
		{"unix", d.socket, "X-Forwarded-For: 192.0.2.1\r\nAccept-Encoding: br\r\n", "sandbox.example|192.0.2.1|http|sandbox.example|br"},
	} {
		if _, body := raw(t, c.network, c.address, request+c.headers+"\r\n"); body != c.want {
			t.Errorf("%s with %q: got %q", c.network, c.headers, body)
		}
	}
}

func TestAStreamIsFlushedAsTheApplicationFlushesIt(t *testing.T) {
	d := startDaemon(t, "")
	goOn := make(chan struct{})
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "part %d\n", i)
			_ = http.NewResponseController(w).Flush()
			<-goOn // the next part is sent only when the client has this one
		}
	})
	response, err := d.client.Get("http://" + d.addr + "/proxy/" + port + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i := range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("part %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
		goOn <- struct{}{}
	}
}

func TestAnApplicationMayAnswerWhileItStillReads(t *testing.T) {
	d := startDaemon(t, "")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "got %s\n", lines.Text())
			_ = http.NewResponseController(w).Flush()
		}
	})
	body, sender := io.Pipe()
	go func() { _, _ = io.WriteString(sender, "0\n") }()
	response, err := d.client.Post("http://"+d.addr+"/proxy/"+port+"/", "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i := range 5 { // each line is sent when the one before was answered
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("got %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
		if _, err := fmt.Fprintln(sender, i+1); err != nil {
			t.Fatal(err)
		}
	}
	_ = sender.Close()
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "got 5\n" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestAnApplicationMayRefuseABodyWithoutReadingIt(t *testing.T) {
	d := startDaemon(t, "")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	for i := range 40 {
		response, body := d.call("POST", "/proxy/"+port+"/", strings.Repeat("x", i*10_000))
		if response.StatusCode != http.StatusRequestEntityTooLarge || body != "too large\n" {
			t.Fatalf("got %d %s", response.StatusCode, body)
		}
	}
}

func TestManyStreamsAreProxiedAtOnce(t *testing.T) {
	d := startDaemon(t, "")
	const streams = 300
	var arrived sync.WaitGroup
	arrived.Add(streams)
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait() // nobody gets an answer before all have asked
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	var asking sync.WaitGroup
	for i := range streams {
		asking.Go(func() {
			body := strings.Repeat(fmt.Sprint(i, " "), 1000)
			response, err := d.client.Post("http://"+d.addr+"/proxy/"+port+"/", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != nil || string(got) != body {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	asking.Wait()
}

func TestAWebSocketIsProxied(t *testing.T) {
	d := startDaemon(t, "secret")
	port := startApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(TokenHeader) != "" {
			t.Error("the application sees the token")
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, message, err := conn.Read(context.Background())
			if err != nil || conn.Write(context.Background(), kind, bytes.ToUpper(message)) != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+d.addr+"/proxy/"+port+"/socket", &websocket.DialOptions{
		HTTPClient: d.client, HTTPHeader: http.Header{TokenHeader: {"secret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hello", strings.Repeat("a", 30000)} {
		if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, answer, err := conn.Read(ctx); err != nil || string(answer) != strings.ToUpper(text) {
			t.Fatalf("got %.20q, %v", answer, err)
		}
	}
	d.connections.closeAll() // shutdown ends it, though http.Server does not know it any more
	if _, _, err := conn.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("after shutdown: %v", err)
	}
	_ = conn.CloseNow()
}

func TestAPortWhereNothingListensIsABadGateway(t *testing.T) {
	d := startDaemon(t, "")
	response, body := d.call("POST", "/proxy/"+freePort(t)+"/x", "body")
	if response.StatusCode != 502 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") || !strings.Contains(body, "refused") {
		t.Errorf("got %d %v %s", response.StatusCode, response.Header, body)
	}
}

func TestAMissingOrImpossiblePortIsABadRequest(t *testing.T) {
	d := startDaemon(t, "")
	for path, code := range map[string]string{
		"/proxy": CodeMissingQuery, "/proxy/": CodeMissingQuery, "/proxy//x": CodeMissingQuery, "/proxy%2F80": CodeMissingQuery,
		"/proxy/0/": CodeInvalidBody, "/proxy/65536": CodeInvalidBody, "/proxy/-1/x": CodeInvalidBody, "/proxy/+80": CodeInvalidBody,
		"/proxy/http/x": CodeInvalidBody, "/proxy/80%20/x": CodeInvalidBody, "/proxy/127.0.0.1:80/": CodeInvalidBody, "/proxy/80%2F..": CodeInvalidBody,
	} {
		response, body := raw(t, "tcp", d.addr, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		wantError(t, path, response, body, http.StatusBadRequest, code)
	}
}

func TestAnApplicationThatListensOnlyOnIPv6IsFound(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback: ", err)
	}
	app := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "six")
	})}}
	app.Start()
	defer app.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	d := startDaemon(t, "")
	if response, body := d.call("GET", "/proxy/"+port+"/", ""); response.StatusCode != 200 || body != "six" {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
}

func TestAProxyOfTheDaemonItselfEnds(t *testing.T) {
	d := startDaemon(t, "")
	_, port, _ := net.SplitHostPort(d.addr)
	path := strings.Repeat("/proxy/"+port, 20) + "/ready"
	if response, body := d.call("GET", path, ""); response.StatusCode != 200 || !strings.Contains(body, "sandbox-1") {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
}
