// SPDX-License-Identifier: Apache-2.0

package journal

import "io"

// ring is the storage of a journal: positions are taken modulo its limit.
type ring interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// memoryRing is the storage when there is no disk to write to.
type memoryRing []byte

func (m memoryRing) ReadAt(p []byte, at int64) (int, error)  { return copy(p, m[at:]), nil }
func (m memoryRing) WriteAt(p []byte, at int64) (int, error) { return copy(m[at:], p), nil }
func (m memoryRing) Close() error                            { return nil }

func writeRing(r ring, limit, at int64, b []byte) error {
	for len(b) > 0 {
		n := min(int64(len(b)), limit-at%limit)
		if _, err := r.WriteAt(b[:n], at%limit); err != nil {
			return err
		}
		b, at = b[n:], at+n
	}
	return nil
}

func readRing(r ring, limit, at int64, b []byte) error {
	for len(b) > 0 {
		n := min(int64(len(b)), limit-at%limit)
		if _, err := r.ReadAt(b[:n], at%limit); err != nil {
			return err
		}
		b, at = b[n:], at+n
	}
	return nil
}
