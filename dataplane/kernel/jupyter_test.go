// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// sink is a connection that takes everything and says nothing.
type sink struct {
	net.Conn
	written bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) { return s.written.Write(b) }

func reading(data []byte) (*zmtp, *sink) {
	conn := &sink{}
	return &zmtp{conn: conn, in: bufio.NewReader(bytes.NewReader(data))}, conn
}

func TestFramesOfAMessageComeBackAsTheyWere(t *testing.T) {
	z, conn := reading(nil)
	want := [][]byte{[]byte("short"), bytes.Repeat([]byte("long"), 100), {}}
	if err := z.send(want...); err != nil {
		t.Fatal(err)
	}
	back, _ := reading(conn.written.Bytes())
	got, err := back.receive()
	if err != nil || len(got) != 3 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1]) || len(got[2]) != 0 {
		t.Errorf("got %q %v", got, err)
	}
}

func TestAPingIsAnsweredWithItsContext(t *testing.T) {
	data := appendFrame(nil, flagCommand, []byte("\x04PING\x00\x64who"))
	z, conn := reading(appendFrame(data, 0, []byte("after")))
	if got, err := z.receive(); err != nil || string(got[0]) != "after" {
		t.Errorf("got %q %v", got, err)
	}
	if want := appendFrame(nil, flagCommand, []byte("\x04PONGwho")); !bytes.Equal(conn.written.Bytes(), want) {
		t.Errorf("got %q", conn.written.Bytes())
	}
}

func TestAFrameThatIsTooLargeIsRefusedBeforeItIsRead(t *testing.T) {
	z, _ := reading([]byte{flagLong, 0x7f, 0, 0, 0, 0, 0, 0, 0})
	if _, err := z.receive(); err == nil {
		t.Error("it was accepted")
	}
}

func FuzzWhatAKernelSendsNeverBreaksUs(f *testing.F) {
	signer := jupyterSigner{key: []byte("key"), session: "session"}
	frames, _, err := signer.request("status", map[string]string{"execution_state": "idle"})
	if err != nil {
		f.Fatal(err)
	}
	z, conn := reading(nil)
	if err := z.send(frames...); err != nil {
		f.Fatal(err)
	}
	f.Add(conn.written.Bytes())
	f.Add(appendFrame(nil, flagCommand, []byte("\x04PING\x00\x64who")))
	f.Fuzz(func(t *testing.T, data []byte) {
		z, _ := reading(data)
		for {
			got, err := z.receive()
			if err != nil {
				return
			}
			_, _ = signer.read(got) // an error is an answer
		}
	})
}

func TestAMessageWithAWrongSignatureIsRefused(t *testing.T) {
	signer := jupyterSigner{key: []byte("key"), session: "session"}
	frames, id, err := signer.request("execute_request", map[string]string{"code": "1"})
	if err != nil {
		t.Fatal(err)
	}
	said, err := signer.read(append([][]byte{[]byte("routing")}, frames...))
	if err != nil || said.Header.ID != id || said.Header.Type != "execute_request" {
		t.Errorf("got %+v %v", said, err)
	}
	frames[5] = []byte(`{"code":"2"}`)
	if _, err := signer.read(frames); !errors.Is(err, errSignature) {
		t.Errorf("got %v", err)
	}
}

func TestAKernelspecIsFoundByNameBeforeLanguage(t *testing.T) {
	share := t.TempDir()
	for name, text := range map[string]string{
		"aaa":     `{"argv": ["a", "{connection_file}", "{resource_dir}"], "language": "wanted"}`,
		"wanted":  `{"argv": ["b"], "language": "other"}`,
		"broken":  `{`,
		"nothing": `{"argv": []}`,
	} {
		home := filepath.Join(share, "kernels", name)
		if err := os.MkdirAll(home, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "kernel.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"JUPYTER_PATH": share}
	if spec, ok := findKernelspec("Wanted", env); !ok || spec.Argv[0] != "b" {
		t.Errorf("got %+v", spec)
	}
	spec, ok := findKernelspec("other", env)
	if !ok || spec.name != "wanted" {
		t.Errorf("got %+v", spec)
	}
	spec, _ = findKernelspec("aaa", env)
	if got := spec.command("/file"); got[1] != "/file" || got[2] != filepath.Join(share, "kernels", "aaa") {
		t.Errorf("got %q", got)
	}
	for _, missing := range []string{"broken", "nothing", "never"} {
		if spec, ok := findKernelspec(missing, env); ok {
			t.Errorf("found %+v", spec)
		}
	}
}
