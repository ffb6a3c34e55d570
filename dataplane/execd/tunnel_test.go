// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// halfConn is a connection that can be finished in one direction.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// startRaw listens in the sandbox and gives each connection to handle.
func startRaw(t *testing.T, handle func(halfConn)) (port string) {
	t.Helper()
	listener := listen(t, "tcp", "127.0.0.1:0")
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handlers.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(testTimeout))
				handle(conn.(halfConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		handlers.Wait()
	})
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

// tunnel opens one; early bytes are sent together with the request.
func (d *daemon) tunnel(t *testing.T, network, target, early string) (halfConn, *bufio.Reader) {
	t.Helper()
	address := d.addr
	if network == "unix" {
		address = d.socket
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	if _, err := io.WriteString(conn, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n"+early); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil || line != "HTTP/1.1 200 Connection Established\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	return conn.(halfConn), reader
}

func TestATunnelPropagatesTheEndOfEachDirection(t *testing.T) {
	d := startDaemon(t, "")
	for _, network := range []string{"tcp", "unix"} {
		clientSawEnd := make(chan struct{})
		port := startRaw(t, func(app halfConn) {
			all, _ := io.ReadAll(app) // ends when the client has finished, though it still listens
			fmt.Fprintf(app, "%d bytes", len(all))
			_ = app.CloseWrite()
			<-clientSawEnd
		})
		conn, reader := d.tunnel(t, network, "127.0.0.1:"+port, "early")
		if _, err := conn.Write(bytes.Repeat([]byte{'x'}, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(reader)
		if err != nil || string(answer) != "1048581 bytes" {
			t.Errorf("%s: got %q, %v", network, answer, err)
		}
		close(clientSawEnd)
	}
}

func TestTheApplicationMayFinishFirst(t *testing.T) {
	d := startDaemon(t, "")
	got := make(chan string, 1)
	port := startRaw(t, func(app halfConn) {
		_, _ = io.WriteString(app, "bye")
		_ = app.CloseWrite()
		all, _ := io.ReadAll(app)
		got <- string(all)
	})
	conn, reader := d.tunnel(t, "tcp", "localhost:"+port, "")
	if text, err := io.ReadAll(reader); err != nil || string(text) != "bye" {
		t.Fatalf("got %q, %v", text, err)
	}
	_, _ = io.WriteString(conn, "still sending")
	_ = conn.CloseWrite()
	if text := <-got; text != "still sending" {
		t.Errorf("the application got %q", text)
	}
}

func TestAnEndThatDiesTakesTheOtherWithIt(t *testing.T) {
	d := startDaemon(t, "")
	appEnded := make(chan struct{})
	port := startRaw(t, func(app halfConn) {
		defer close(appEnded)
		for { // sends without end, so that it notices
			if _, err := app.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	conn, reader := d.tunnel(t, "tcp", "127.0.0.1:"+port, "")
	if _, err := reader.ReadByte(); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	<-appEnded

	port = startRaw(t, func(app halfConn) { // the application resets a connection that it has used
		_, _ = app.Read(make([]byte, 1))
		_ = app.(*net.TCPConn).SetLinger(0)
	})
	_, reader = d.tunnel(t, "tcp", "127.0.0.1:"+port, "x")
	if n, _ := io.Copy(io.Discard, reader); n != 0 {
		t.Errorf("%d bytes from an application that sent none", n)
	}
}

func TestAHundredTunnelsCarryTheirOwnBytes(t *testing.T) {
	d := startDaemon(t, "")
	const tunnels = 100
	var connected sync.WaitGroup
	connected.Add(tunnels)
	port := startRaw(t, func(app halfConn) {
		connected.Done()
		connected.Wait()
		_, _ = io.Copy(app, app)
		_ = app.CloseWrite()
	})
	var running sync.WaitGroup
	for i := range tunnels {
		network := []string{"tcp", "unix"}[i%2]
		running.Go(func() {
			text := strings.Repeat(fmt.Sprintf("tunnel %d ", i), 20000)
			conn, reader := d.tunnel(t, network, "127.0.0.1:"+port, text[:100])
			running.Go(func() {
				_, _ = io.WriteString(conn, text[100:])
				_ = conn.CloseWrite()
			})
			if got, err := io.ReadAll(reader); err != nil || string(got) != text {
				t.Errorf("tunnel %d: %d of %d bytes, %v", i, len(got), len(text), err)
			}
		})
	}
	running.Wait()
}

func TestATunnelGoesOnlyToTheSandbox(t *testing.T) {
	d := startDaemon(t, "")
	for _, target := range []string{"192.0.2.1:80", "example.com:80", "127.0.0.2:80", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:", "[::2]:80", "0.0.0.0:80"} {
		response, body := raw(t, "tcp", d.addr, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		wantError(t, target, response, body, http.StatusBadRequest, CodeInvalidBody)
	}
	response, body := raw(t, "tcp", d.addr, "CONNECT /path HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n")
	wantError(t, "a path", response, body, http.StatusBadRequest, CodeInvalidBody)
	response, body = raw(t, "tcp", d.addr, "CONNECT 127.0.0.1:"+freePort(t)+" HTTP/1.1\r\nHost: x\r\n\r\n")
	wantError(t, "nothing listens", response, body, http.StatusBadGateway, CodeRuntime)
}

func TestATunnelNeedsTheToken(t *testing.T) {
	d := startDaemon(t, "secret")
	port := startRaw(t, func(halfConn) { t.Error("connected without the token") })
	response, _ := raw(t, "tcp", d.addr, "CONNECT 127.0.0.1:"+port+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if response.StatusCode != 401 {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestShutdownEndsTunnelsAndLetsNoneBegin(t *testing.T) {
	d := startDaemon(t, "")
	appEnded := make(chan struct{})
	port := startRaw(t, func(app halfConn) {
		_, _ = io.Copy(io.Discard, app)
		close(appEnded)
	})
	_, reader := d.tunnel(t, "tcp", "127.0.0.1:"+port, "")
	d.connections.closeAll()
	<-appEnded
	if _, err := reader.ReadByte(); err == nil {
		t.Error("a byte from nowhere")
	}
	response, _ := raw(t, "tcp", d.addr, "CONNECT 127.0.0.1:"+port+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("after shutdown: %d", response.StatusCode)
	}
}
