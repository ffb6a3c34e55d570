// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Ports with a meaning of their own. Everything else belongs to the applications in the sandbox.
const (
	execdPort  = 44772
	egressPort = 18080
)

// Headers that name a destination, in the form of the first label of a host route.
const (
	routeHeader    = "Opensandbox-Ingress-To"
	oldRouteHeader = "Open-Sandbox-Ingress"
)

// form is how a request named its destination.
type form uint8

const (
	toAPI    form = iota
	byPath        // /sandboxes/{id}/proxy/{port}/path, with or without /v1
	byURI         // /{id}/{port}/path
	byHost        // {id}-{port}.{domain}
	byHeader      // OpenSandbox-Ingress-To: {id}-{port}
)

// destination is where a request wants to go. Nothing in it has been checked against the table.
type destination struct {
	form      form
	id        string
	port      uint16
	prefix    string // of the URL's path, escaped, up to where the application's own begins; "" for byHost and byHeader
	path      string // for the application, escaped; begins with a slash
	signature signature
}

// sharesOrigin says that browsers see the sandbox's content on the origin of the API.
func (d *destination) sharesOrigin() bool { return d.form == byPath || d.form == byURI }

// findDestination reads where a request wants to go. The error says what is wrong with a request that
// clearly means a sandbox; everything else is for the API.
func findDestination(r *http.Request, domain string) (destination, *apiError) {
	escaped := orRoot(r.URL.EscapedPath())
	if escaped[0] != '/' {
		return destination{}, badRoute("the path must begin with /")
	}
	inHost, isHost, err := parseHost(r.Host, domain)
	if err != nil {
		return destination{}, err
	}
	inHeader, isHeader, err := parseRouteHeader(r.Header)
	if err != nil {
		return destination{}, err
	}
	switch {
	case isHost && isHeader && (inHost.id != inHeader.id || inHost.port != inHeader.port):
		return destination{}, badRoute("the host and the header name different sandboxes")
	case isHeader:
		inHeader.form, inHeader.path = byHeader, escaped
		return inHeader, checkPath(&inHeader)
	case isHost:
		inHost.form, inHost.path = byHost, escaped
		return inHost, checkPath(&inHost)
	}
	d, isRoute, err := parsePath(escaped)
	if err != nil || !isRoute {
		return destination{}, err
	}
	return d, checkPath(&d)
}

// parseHost reads {id}-{port}.{domain}, {id}-{port}-{expires}-{short signature}.{domain} and, since a
// label holds at most 63 characters, {full signature}.{id}-{port}-{expires}.{domain}.
func parseHost(host, domain string) (d destination, isRoute bool, err *apiError) {
	if domain == "" || len(host) <= len(domain) {
		return d, false, nil
	}
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	name, ok := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+domain)
	if !ok {
		return d, false, nil
	}
	signature, label, isSigned := strings.Cut(name, ".")
	if !isSigned {
		return parseLabel(name)
	}
	if id, _ := splitID(label); id == "" {
		return d, false, nil
	}
	return parseLabel(label + "-" + signature)
}

func parseRouteHeader(h http.Header) (destination, bool, *apiError) {
	values := h[routeHeader]
	if len(values) == 0 {
		values = h[oldRouteHeader]
	}
	if len(values) == 0 {
		return destination{}, false, nil
	}
	d, isRoute, err := parseLabel(strings.TrimSpace(values[0]))
	if err == nil && (!isRoute || len(values) > 1) {
		err = badRoute("the routing header names one sandbox: <id>-<port>")
	}
	return d, isRoute, err
}

// parseLabel reads {id}-{port} and {id}-{port}-{expires}-{signature}. A label that does not begin with
// the id of a sandbox is none.
func parseLabel(label string) (d destination, isRoute bool, err *apiError) {
	id, rest := splitID(label)
	if id == "" {
		return d, false, nil
	}
	if rest == "" || rest[0] != '-' {
		return d, false, nil
	}
	d.id = id
	portText, signed, isSigned := strings.Cut(rest[1:], "-")
	if d.port, err = parsePort(portText); err != nil {
		return d, true, err
	}
	if isSigned {
		expires, text, _ := strings.Cut(signed, "-")
		if d.signature = (signature{expires: expires, text: text}); !d.signature.isShaped() {
			return d, true, badRoute("%q does not end in <expires>-<signature>", label)
		}
	}
	return d, true, nil
}

// parsePath reads the two forms of a destination in a path.
func parsePath(escaped string) (d destination, isRoute bool, err *apiError) {
	rest := strings.TrimPrefix(escaped, "/v1")
	if rest, ok := strings.CutPrefix(rest, "/sandboxes/"); ok {
		return parseProxyPath(escaped, rest)
	}
	id, rest, _ := strings.Cut(escaped[1:], "/")
	if found, after := splitID(id); found == "" || after != "" {
		return d, false, nil
	}
	portText, rest, _ := strings.Cut(rest, "/")
	if !isDigits(portText) {
		return d, false, nil
	}
	d = destination{form: byURI, id: id}
	if d.port, err = parsePort(portText); err != nil {
		return d, true, err
	}
	d.signature, rest = cutSignature(rest)
	d.setPath(escaped, rest)
	return d, true, nil
}

// parseProxyPath reads {id}/proxy/{port}[/path]; rest is escaped without what comes before the id.
func parseProxyPath(escaped, rest string) (d destination, isRoute bool, err *apiError) {
	id, rest, _ := strings.Cut(rest, "/")
	rest, ok := strings.CutPrefix(rest, "proxy/")
	if !ok {
		return d, false, nil
	}
	portText, rest, _ := strings.Cut(rest, "/")
	if id == "" || !isDigits(portText) {
		return d, false, nil
	}
	d = destination{form: byPath, id: id}
	if d.port, err = parsePort(portText); err != nil {
		return d, true, err
	}
	d.setPath(escaped, rest)
	return d, true, nil
}

// setPath splits the whole path before rest, which has lost the slash before it.
func (d *destination) setPath(whole, rest string) {
	d.prefix = strings.TrimSuffix(whole[:len(whole)-len(rest)], "/")
	d.path = orRoot(whole[len(d.prefix):])
}

// cutSignature takes {expires}/{signature} off the front of a path that has them.
func cutSignature(rest string) (signature, string) {
	expires, after, _ := strings.Cut(rest, "/")
	text, after, _ := strings.Cut(after, "/")
	if s := (signature{expires: expires, text: text}); s.isShaped() {
		return s, after
	}
	return signature{}, rest
}

// checkPath refuses paths that could mean another place than they seem to. What an application makes
// of its own paths is its own affair, as long as no part of them can climb out of the route.
func checkPath(d *destination) *apiError {
	decoded, err := url.PathUnescape(d.path)
	if err != nil {
		return badRoute("the path is not well escaped")
	}
	if d.prefix != "" && climbs(decoded) {
		return badRoute("the path has . or .. in it")
	}
	if d.port != execdPort && d.port != egressPort {
		return nil
	}
	if clean := path.Clean(decoded); decoded != clean && decoded != clean+"/" {
		return badRoute("the path has //, . or .. in it")
	}
	if d.port == execdPort && isPrivate(decoded) {
		return &apiError{http.StatusNotFound, "UNKNOWN", "no such route"}
	}
	return nil
}

// climbs looks for the segments . and .. as any server might see them: some take \ for /.
func climbs(decoded string) bool {
	if !strings.Contains(decoded, ".") {
		return false
	}
	for segment := range strings.FieldsFuncSeq(decoded, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// isPrivate says that a clean path of execd is not for the outside: its internal routes, and its own
// way back to itself.
func isPrivate(clean string) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(clean, "/"), "/")
	if strings.EqualFold(first, "internal") {
		return true
	}
	if !strings.EqualFold(first, "proxy") {
		return false
	}
	portText, _, _ := strings.Cut(rest, "/")
	port, err := strconv.ParseUint(portText, 10, 16)
	return err == nil && port == execdPort
}

func orRoot(escaped string) string {
	if escaped == "" {
		return "/"
	}
	return escaped
}

func parsePort(text string) (uint16, *apiError) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || !isDigits(text) {
		return 0, &apiError{http.StatusBadRequest, codeInvalidPort, strconv.Quote(text) + " is not a port: 1..65535"}
	}
	return uint16(port), nil
}

func isDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}
