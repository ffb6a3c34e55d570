// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// blockSize is how much both sides write to, or read from, their socket at once.
const blockSize = 256 << 10

// A transfer compares moving bytes through the daemon with `cat` at the far end of a unix socket.
// Both sides do the same here: plain writes and reads of the same block, no HTTP library between.
type transfer struct {
	daemon *daemon
	dir    string
	size   int64
	block  []byte
}

func measureTransfers(set settings) ([]result, error) {
	d, err := startExecd(set)
	if err != nil {
		return nil, err
	}
	t := &transfer{daemon: d, dir: d.dir, size: set.bytes, block: make([]byte, blockSize)}
	if _, err := rand.Read(t.block); err != nil {
		return nil, err
	}
	up := result{Name: "upload_vs_cat", Unit: "ms"}
	up.Ours, up.Other, err = alternate(set.transfers, t.upload, t.catUpload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", up.Name, err)
	}
	if _, err := t.catUpload(); err != nil {
		return nil, err
	}
	if err := os.Rename(t.path("uploaded"), t.path("source")); err != nil {
		return nil, err
	}
	down := result{Name: "download_vs_cat", Unit: "ms"}
	down.Ours, down.Other, err = alternate(set.transfers, t.download, t.catDownload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", down.Name, err)
	}
	return []result{up, down}, d.stop()
}

func (t *transfer) path(name string) string { return filepath.Join(t.dir, name) }

// prepareUpload removes what the sample before wrote, so that neither side pays for truncating it
// or for writing it back.
func (t *transfer) prepareUpload() error {
	if err := os.Remove(t.path("uploaded")); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (t *transfer) checkUploaded() error {
	info, err := os.Stat(t.path("uploaded"))
	if err == nil && info.Size() != t.size {
		err = fmt.Errorf("uploaded file has %d bytes, want %d", info.Size(), t.size)
	}
	return err
}

func (t *transfer) upload() (float64, error) {
	if err := t.prepareUpload(); err != nil {
		return 0, err
	}
	const boundary = "benchmark-boundary"
	head := fmt.Sprintf("--%[1]s\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"+
		"Content-Type: application/json\r\n\r\n{\"path\":%[2]q,\"mode\":644}\r\n--%[1]s\r\n"+
		"Content-Disposition: form-data; name=\"file\"; filename=\"uploaded\"\r\n"+
		"Content-Type: application/octet-stream\r\n\r\n", boundary, t.path("uploaded"))
	tail := "\r\n--" + boundary + "--\r\n"
	began := time.Now()
	conn, err := net.Dial("unix", t.daemon.socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /files/upload HTTP/1.1\r\nHost: execd\r\nContent-Length: %d\r\n"+
		"Content-Type: multipart/form-data; boundary=%s\r\n\r\n%s", int64(len(head)+len(tail))+t.size, boundary, head)
	if err := t.send(conn); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, tail); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	took := milliseconds(began)
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return 0, fmt.Errorf("upload: %s: %s", response.Status, body)
	}
	return took, t.checkUploaded()
}

func (t *transfer) catUpload() (float64, error) {
	if err := t.prepareUpload(); err != nil {
		return 0, err
	}
	began := time.Now()
	file, err := os.Create(t.path("uploaded"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	cat := exec.Command("cat")
	cat.Stdin, cat.Stdout = theirs, file
	err = cat.Start()
	theirs.Close()
	if err != nil {
		return 0, err
	}
	if err := t.send(ours); err != nil {
		return 0, err
	}
	ours.Close()
	if err := cat.Wait(); err != nil {
		return 0, err
	}
	return milliseconds(began), t.checkUploaded()
}

func (t *transfer) download() (float64, error) {
	began := time.Now()
	conn, err := net.Dial("unix", t.daemon.socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /files/download?path=%s HTTP/1.1\r\nHost: execd\r\nConnection: close\r\n\r\n",
		url.QueryEscape(t.path("source")))
	reader := bufio.NewReaderSize(conn, 4096)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK || response.ContentLength != t.size {
		return 0, fmt.Errorf("download: %s, %d bytes", response.Status, response.ContentLength)
	}
	early, err := reader.Discard(reader.Buffered())
	if err != nil {
		return 0, err
	}
	return t.receive(conn, began, int64(early))
}

func (t *transfer) catDownload() (float64, error) {
	began := time.Now()
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	cat := exec.Command("cat", t.path("source"))
	cat.Stdout = theirs
	err = cat.Start()
	theirs.Close()
	if err != nil {
		return 0, err
	}
	took, err := t.receive(ours, began, 0)
	if err != nil {
		return 0, err
	}
	return took, cat.Wait()
}

// send writes exactly size bytes.
func (t *transfer) send(to io.Writer) error {
	for left := t.size; left > 0; {
		n, err := to.Write(t.block[:min(left, blockSize)])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// receive reads to the end and checks that exactly size bytes came in all.
func (t *transfer) receive(from io.Reader, began time.Time, already int64) (float64, error) {
	buffer := make([]byte, blockSize)
	for {
		n, err := from.Read(buffer)
		already += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	took := milliseconds(began)
	if already != t.size {
		return 0, fmt.Errorf("received %d bytes, want %d", already, t.size)
	}
	return took, nil
}

// socketPair is a connected pair of unix sockets: a pollable end for us, a blocking one for a child.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	ours, err = net.FileConn(near)
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return ours, far, nil
}
