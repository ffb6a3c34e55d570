// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Headers by the names that net/http gives them.
const (
	apiKeyHeader       = "Open-Sandbox-Api-Key"
	clientIPHeader     = "Open-Sandbox-Client-Ip"
	tokenHeader        = "X-Execd-Access-Token"
	egressTokenHeader  = "Opensandbox-Egress-Auth"
	secureAccessHeader = "Opensandbox-Secure-Access"
	renewHeader        = "Opensandbox-Access-Renew"
	requestIDHeader    = "X-Request-Id"
)

// A headerPolicy is what happens to a header of a request on its way to a backend.
type headerPolicy uint8

const (
	headerKept    headerPolicy = iota
	headerDropped              // toward every backend
	headerForAPI               // only the API gets it
	// headerAuthorization passes, but not where a browser adds that of the origin, which is the API's or of
	// a proxy before it.
	headerAuthorization
	headerCookie // only where the sandbox has its own name
)

// headerPolicyOf is a switch because it runs for every header of every request.
func headerPolicyOf(name string) headerPolicy {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Real-Ip",
		tokenHeader, egressTokenHeader, routeHeader, oldRouteHeader, requestIDHeader, renewHeader:
		return headerDropped
	case apiKeyHeader, clientIPHeader, secureAccessHeader:
		return headerForAPI
	case "Authorization":
		return headerAuthorization
	case "Cookie":
		return headerCookie
	}
	if strings.IndexByte(name, '_') >= 0 {
		// Applications that see headers as variables cannot tell these from the ones with dashes.
		return headerPolicyOf(textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	}
	return headerKept
}

// passes decides by the form of the destination. Browsers send the cookies of every port of a host, so
// only a sandbox that has a name of its own, or that no browser goes to by itself, may see them. They
// also send the password of an origin to every path of it.
func (p headerPolicy) passes(to form, s *Settings) bool {
	switch p {
	case headerKept:
		return true
	case headerForAPI:
		return to == toAPI
	case headerAuthorization:
		return to != byPath && (to != byURI || s.routesByURI)
	case headerCookie:
		return to == toAPI || to == byHost || to == byHeader
	}
	return false
}

// requestHeader is the head that goes to the backend: what may pass, and who asked. Values are shared
// with the request.
func (x *exchange) requestHeader() http.Header {
	in := x.r.Header
	out := make(http.Header, len(in)+6)
	for name, values := range in {
		if !headerPolicyOf(name).passes(x.form, x.settings) {
			continue
		}
		if x.form != toAPI && x.carriesKey(values) {
			continue
		}
		out[name] = values
	}
	if x.sharesOrigin() && !x.isOwnPage(in.Get("Referer")) {
		delete(out, "Referer")
	}
	dropNamed(out, in["Connection"])
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // or the transport would add its own
	}
	added := new([4]string) // one allocation for all
	added[0], added[1], added[2], added[3] = peerAddress(x.r), x.r.Host, "http", x.requestID
	out["X-Forwarded-For"] = added[0:1:1]
	out["X-Forwarded-Host"] = added[1:2:2]
	out["X-Forwarded-Proto"] = added[2:3:3]
	out[requestIDHeader] = added[3:4:4]
	if x.sandbox != nil {
		switch x.port {
		case execdPort:
			out[tokenHeader] = []string{x.sandbox.token}
		case egressPort:
			out[egressTokenHeader] = []string{x.sandbox.egressAuth}
		}
	}
	return out
}

// isOwnPage says that a page is of the same sandbox, on an origin that it shares: the address of another
// one may be a signed route.
func (x *exchange) isOwnPage(page string) bool {
	place, err := url.Parse(page)
	return err == nil && strings.HasPrefix(place.EscapedPath()+"/", x.prefix+"/")
}

// carriesKey looks for API keys under names that are not known to hold one. A key may follow the name
// of a scheme, as in Authorization.
func (x *exchange) carriesKey(values []string) bool {
	keys := x.settings.keys
	if len(keys) == 0 {
		return false
	}
	for _, value := range values {
		if keys.hasKey(value) {
			return true
		}
		if space := strings.LastIndexByte(value, ' '); space >= 0 && keys.hasKey(value[space+1:]) {
			return true
		}
	}
	return false
}

// dropNamed removes what the Connection header names: it was meant for us.
func dropNamed(h http.Header, connection []string) {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
}

// hasToken looks for a word in a header that is a list of them.
func hasToken(values []string, word string) bool {
	for _, line := range values {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(token), word) {
				return true
			}
		}
	}
	return false
}

// peerAddress is the client's; one on a unix socket is local.
func peerAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}
