// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"encoding/json"
	"time"

	"opensandbox.io/dataplane/event"
)

// jupyterCell is a cell that a Jupyter kernel runs. It is over when the kernel has replied and is
// idle, in either order.
type jupyterCell struct {
	kernel    *jupyterKernel
	id        string
	hasBegun  bool // before that the kernel takes no notice of an interrupt
	isReplied bool
	isIdle    bool
	failure   *event.Error
}

// replyLimit bounds how long the reply is waited for of a kernel that was interrupted and is idle. A
// second interrupt may have hit the kernel itself, which then does not reply; its state is whole.
const replyLimit = time.Second

// run gives the kernel one cell. Variables cannot be given to a kernel that runs.
func (k *jupyterKernel) run(run *Run, request Request) *event.Error {
	k.begin(run)
	defer k.end()
	defer k.setRunning(false)
	id, err := k.ask(k.shell, "execute_request", map[string]any{
		"code": request.Code, "silent": false, "store_history": true,
		"user_expressions": struct{}{}, "allow_stdin": false, "stop_on_error": false,
	})
	if err != nil {
		return k.died()
	}
	cell := &jupyterCell{kernel: k, id: id}
	var unanswered <-chan time.Time
	for !cell.isReplied || !cell.isIdle {
		if cell.isIdle && unanswered == nil && k.isInterrupted() {
			unanswered = time.After(replyLimit)
		}
		select {
		case said := <-k.replies:
			cell.reply(said)
		case said := <-k.broadcasts:
			cell.broadcast(said)
		case <-unanswered:
			return cmp.Or(cell.failure, &event.Error{Name: "KeyboardInterrupt"})
		case <-k.process.Done():
			return k.died()
		case <-k.lost:
			return k.died()
		}
	}
	for late := time.After(lateResult); cell.failure == nil && k.isEarly; {
		select {
		case said := <-k.broadcasts:
			cell.broadcast(said)
			continue
		case <-late:
		}
		break
	}
	return cell.failure
}

func (c *jupyterCell) reply(said jupyterMessage) {
	if said.Parent.ID != c.id || said.Header.Type != "execute_reply" {
		return
	}
	c.isReplied = true
	if said.Content == nil {
		c.failure = &errorTooLarge
		return
	}
	var content struct {
		Status string `json:"status"`
		event.Error
	}
	if json.Unmarshal(said.Content, &content) != nil || content.Status == "ok" || c.failure != nil {
		return
	}
	c.failure = &content.Error
	if content.Name == "" {
		c.failure = &event.Error{Name: "KernelError", Value: "the kernel answered " + content.Status}
	}
}

// broadcast reports what belongs to the cell, and what belongs to none.
func (c *jupyterCell) broadcast(said jupyterMessage) {
	if !c.hasBegun && said.Parent.ID == c.id && said.Header.Type != "status" {
		c.hasBegun = true
		c.kernel.setRunning(true)
	}
	if said.Content == nil {
		c.passOver(said)
		return
	}
	var content struct {
		Name      string                     `json:"name"` // of a stream
		Text      string                     `json:"text"`
		State     string                     `json:"execution_state"`
		Data      map[string]json.RawMessage `json:"data"`
		Count     int                        `json:"execution_count"`
		Transient struct {
			DisplayID string `json:"display_id"`
		} `json:"transient"`
	}
	if json.Unmarshal(said.Content, &content) != nil {
		return
	}
	now := time.Now()
	switch said.Header.Type {
	case "stream":
		kind := event.Stdout
		if content.Name == "stderr" {
			kind = event.Stderr
		}
		if content.Text != "" {
			c.kernel.report(Event{At: now, Kind: kind, Text: []byte(content.Text)})
		}
	case "execute_result", "display_data", "update_display_data":
		result := Result{Data: content.Data, DisplayID: content.Transient.DisplayID, IsUpdate: said.Header.Type == "update_display_data"}
		if said.Header.Type == "execute_result" {
			result.Count = content.Count
		}
		c.kernel.show(result)
	case "error":
		var failure event.Error
		if said.Parent.ID == c.id && json.Unmarshal(said.Content, &failure) == nil {
			c.failure = &failure
		}
	case "status":
		c.isIdle = c.isIdle || said.Parent.ID == c.id && content.State == "idle"
	}
}

// passOver reports a message that is too large to keep. An error comes with the reply, too.
func (c *jupyterCell) passOver(said jupyterMessage) {
	switch said.Header.Type {
	case "stream":
		note := []byte("(output of more than 64 MiB at once was left out; write it to a file)\n")
		c.kernel.report(Event{At: time.Now(), Kind: event.Stderr, Text: note})
	case "execute_result", "display_data", "update_display_data":
		c.kernel.show(Result{Data: resultTooLarge})
	}
}
