// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// originPolicy takes a document that shares our origin out of it: it runs, but as nobody.
const originPolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// poweredByHeader marks what came through a gateway route; the name is the published one.
const (
	poweredByHeader = "Reverse-Proxy-Server-Powerby"
	poweredBy       = "OpenSandbox-ingress"
)

const referrerHeader = "Referrer-Policy"

// A responseHeaderPolicy is what happens to a header of a response.
type responseHeaderPolicy uint8

const (
	responseKept responseHeaderPolicy = iota
	responseDropped
	responseNotOnShared // it would speak for the whole origin or host, which is not the sandbox's
	responseLocation
	responseCookie
	responsePolicy
)

func responseHeaderPolicyOf(name string) responseHeaderPolicy {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Server", requestIDHeader:
		return responseDropped
	case "Service-Worker-Allowed", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security",
		"Nel", "Report-To", "Reporting-Endpoints", "Origin-Agent-Cluster":
		return responseNotOnShared
	case "Location":
		return responseLocation
	case "Set-Cookie":
		return responseCookie
	case "Content-Security-Policy", "Access-Control-Allow-Credentials":
		return responsePolicy
	}
	return responseKept
}

// copyResponseHeader writes the head for the client. Values are shared with the response.
func (x *exchange) copyResponseHeader(from http.Header) {
	out := x.w.Header()
	for name, values := range from {
		switch responseHeaderPolicyOf(name) {
		case responseDropped:
		case responseNotOnShared:
			if x.form == toAPI || x.form == byHost {
				out[name] = values
			}
		case responseLocation:
			out[name] = x.relocate(values)
		case responseCookie:
			out[name] = x.confineCookies(values)
		case responsePolicy:
			if x.form == toAPI || name == "Content-Security-Policy" {
				out[name] = values
			}
		default:
			out[name] = values
		}
	}
	dropNamed(out, from["Connection"])
	x.separateOrigin(out)
}

// separateOrigin adds what keeps a sandbox's content from acting as the origin it is served on. CORS
// never comes with credentials, so whoever may read could have asked for it without a browser.
func (x *exchange) separateOrigin(out http.Header) {
	if x.sharesOrigin() {
		out["Content-Security-Policy"] = append(slices.Clip(out["Content-Security-Policy"]), originPolicy)
		if len(x.r.Header["Origin"]) > 0 && len(out["Access-Control-Allow-Origin"]) == 0 {
			out["Access-Control-Allow-Origin"] = []string{"*"}
			out["Access-Control-Expose-Headers"] = []string{"*"}
		}
	}
	if x.signature.isPresent() {
		keepRouteSecret(out)
	}
	if x.form == byURI || x.form == byHost || x.form == byHeader {
		out[poweredByHeader] = []string{poweredBy}
	}
}

// keepRouteSecret keeps pages from telling others where they are: the address of a signed route is all
// that it takes to use it. A policy of the application that tells others nothing either is left alone.
func keepRouteSecret(out http.Header) {
	policy := ""
	for _, line := range out[referrerHeader] {
		for word := range strings.SplitSeq(line, ",") { // the last that a browser knows counts
			if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
				policy = word
			}
		}
	}
	if policy != "no-referrer" && policy != "same-origin" {
		policy = "same-origin"
	}
	out[referrerHeader] = []string{policy}
}

// relocate puts root-relative locations under the route's prefix. Others are left alone.
func (x *exchange) relocate(values []string) []string {
	if x.prefix == "" {
		return values
	}
	moved := make([]string, len(values))
	for i, value := range values {
		moved[i] = value
		if strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//") {
			moved[i] = x.prefix + settle(value)
		}
	}
	return moved
}

// settle resolves . and .. of a location against the application's root, where they cannot climb out.
func settle(location string) string {
	end := strings.IndexAny(location, "?#")
	if end < 0 {
		end = len(location)
	}
	decoded, err := url.PathUnescape(location[:end])
	if err == nil && !climbs(decoded) {
		return location
	}
	clean := path.Clean(strings.ReplaceAll(decoded, `\`, "/"))
	return (&url.URL{Path: clean}).EscapedPath() + location[end:]
}

// confineCookies keeps a cookie to the sandbox that set it: never for another host, and on a shared
// host for the route's path only.
func (x *exchange) confineCookies(values []string) []string {
	if x.form == toAPI {
		return values
	}
	confined := make([]string, len(values))
	for i, value := range values {
		confined[i] = confineCookie(value, x.prefix)
	}
	return confined
}

func confineCookie(cookie, prefix string) string {
	pair, attributes, _ := strings.Cut(cookie, ";")
	var out strings.Builder
	out.WriteString(pair)
	cookiePath := "/"
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(attribute), "=")
		name = strings.TrimSpace(name)
		switch {
		case name == "" || strings.EqualFold(name, "Domain"):
		case prefix != "" && strings.EqualFold(name, "Path"):
			if value = strings.TrimSpace(value); strings.HasPrefix(value, "/") {
				cookiePath = value
			}
		default:
			out.WriteString("; " + strings.TrimSpace(attribute))
		}
	}
	if prefix != "" {
		// The last Path counts, as it does for browsers.
		out.WriteString("; Path=" + prefix + strings.TrimSuffix(path.Clean(cookiePath), "/"))
	}
	return out.String()
}
