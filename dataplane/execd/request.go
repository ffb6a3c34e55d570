// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxBody bounds a JSON body; files and archives are streamed and have no bound.
const maxBody = 32 << 20

// readJSON decodes the whole body into v. Fields it does not know are ignored, as the contract's
// clients may be newer.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	err := decoder.Decode(v)
	if err == nil {
		if _, extra := decoder.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "the body is not the JSON this route takes: %v", err)
	}
	return nil
}

// text is a string that cannot be null, where encoding/json would take null for "".
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return errors.New("null where a string belongs")
	}
	return json.Unmarshal(data, (*string)(t))
}

// cursorOf is a cursor of the query, a count of bytes.
func cursorOf(r *http.Request, name string, otherwise int64) (int64, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return otherwise, nil
	}
	cursor, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || cursor < 0 {
		return 0, failf(http.StatusBadRequest, CodeInvalidBody, "%s must be a count of bytes, 0 or more", name)
	}
	return cursor, nil
}

// boolQuery is a query value that is true or false.
func boolQuery(r *http.Request, name string, otherwise bool) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "":
		return otherwise, nil
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, failf(http.StatusBadRequest, CodeInvalidBody, "%s must be true or false", name)
}
