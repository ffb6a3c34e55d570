// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net/http"
	"strconv"
	"time"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/files"
)

// watchFiles streams the changes at a path. It ends with the client, at shutdown, or when the path is
// gone.
func watchFiles(w http.ResponseWriter, r *fileRequest) error {
	path, err := r.queryPath()
	if err != nil {
		return err
	}
	recursive, err := boolQuery(r.Request, "recursive", false)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := files.Stat(path, files.NewNames())
		return err
	}
	ctx, end := r.server.connections.begin(r.Context())
	defer end()
	var stream *event.Stream
	ready := func() error {
		stream = event.NewStream(w)
		return stream.Send(appendChange(nil, files.Change{Kind: "ready", Path: path}, time.Now()))
	}
	report := func(change files.Change) error {
		return stream.Send(appendChange(nil, change, time.Now()))
	}
	defer func() {
		if stream != nil {
			stream.Close()
		}
	}()
	err = files.Watch(ctx, path, recursive, ready, report)
	if stream != nil {
		return nil // the stream has begun: its end is all that can be told
	}
	return err
}

func appendChange(b []byte, change files.Change, at time.Time) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, change.Kind...)
	b = append(b, `","path":`...)
	b = event.AppendString(b, []byte(change.Path))
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, at.UnixMilli(), 10)
	return append(b, "}\n\n"...)
}
