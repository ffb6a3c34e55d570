// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"sync"
)

// side is one of the two that are compared.
type side struct {
	name, address, path string
	clients             []*client
}

// client asks on one connection, again and again, with next to no work of its own.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

// newClient sends what the SDK sends.
func newClient(address, path string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n" +
		"User-Agent: OpenSandbox-Python-SDK/1.1.1\r\nX-EXECD-ACCESS-TOKEN: " + token + "\r\nOPEN-SANDBOX-CLIENT-IP: 192.0.2.7\r\n\r\n"
	return &client{conn, bufio.NewReader(conn), []byte(request)}, nil
}

var (
	lengthName = []byte("content-length: ")
	okStatus   = []byte("HTTP/1.1 200 ")
)

func (c *client) ask() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, okStatus) {
		return fmt.Errorf("answered %q", line)
	}
	length := -1
	for len(line) > 2 {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) > len(lengthName) && bytes.EqualFold(line[:len(lengthName)], lengthName) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):]))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("the answer has no length")
	}
	_, err = io.CopyN(io.Discard, c.reader, int64(length))
	return err
}

// load sends the requests of one sample and returns the time of each in microseconds.
func (s *side) load(set settings) (float64, error) {
	for len(s.clients) < set.connections {
		c, err := newClient(s.address, s.path)
		if err != nil {
			return 0, err
		}
		s.clients = append(s.clients, c)
	}
	failed := make([]error, set.connections)
	each := max(1, set.requests/set.connections)
	began := time.Now()
	var all sync.WaitGroup
	for i, c := range s.clients {
		all.Go(func() {
			for range each {
				if failed[i] = c.ask(); failed[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	return float64(took.Microseconds()) / float64(each*set.connections), errors.Join(failed...)
}
