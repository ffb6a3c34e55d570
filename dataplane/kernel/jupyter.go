// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"opensandbox.io/dataplane/command"
)

// jupyterMessage is one message of Jupyter's messaging protocol.
type jupyterMessage struct {
	Header  jupyterHeader
	Parent  jupyterHeader
	Content json.RawMessage // nil: too large to keep
}

type jupyterHeader struct {
	ID       string `json:"msg_id"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Type     string `json:"msg_type"`
	Version  string `json:"version"`
}

const jupyterDelimiter = "<IDS|MSG>"

var errSignature = errors.New("a message of the kernel has a wrong signature")

// jupyterSigner signs with the key that only we and the kernel know.
type jupyterSigner struct {
	key     []byte
	session string
}

func (s jupyterSigner) sign(parts [][]byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	for _, part := range parts {
		_, _ = mac.Write(part) // never fails
	}
	return []byte(hex.EncodeToString(mac.Sum(nil)))
}

// request makes the frames of a message and its id.
func (s jupyterSigner) request(kind string, content any) ([][]byte, string, error) {
	header := jupyterHeader{
		ID: command.NewID(), Session: s.session, Username: "opensandbox",
		Date: time.Now().UTC().Format(time.RFC3339Nano), Type: kind, Version: "5.3",
	}
	head, err := json.Marshal(header)
	if err != nil {
		return nil, "", err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, "", err
	}
	parts := [][]byte{head, []byte("{}"), []byte("{}"), body}
	return append([][]byte{[]byte(jupyterDelimiter), s.sign(parts)}, parts...), header.ID, nil
}

// read takes a message apart: routing, delimiter, signature, header, parent, metadata, content.
func (s jupyterSigner) read(frames [][]byte) (jupyterMessage, error) {
	var m jupyterMessage
	for len(frames) > 0 && string(frames[0]) != jupyterDelimiter {
		frames = frames[1:]
	}
	if len(frames) < 6 {
		return m, errors.New("a message of the kernel is too short")
	}
	if frames[5] != nil && !hmac.Equal(frames[1], s.sign(frames[2:6])) {
		return m, errSignature
	}
	if err := json.Unmarshal(frames[2], &m.Header); err != nil {
		return m, err
	}
	if err := json.Unmarshal(frames[3], &m.Parent); err != nil {
		return m, err
	}
	m.Content = frames[5]
	return m, nil
}
