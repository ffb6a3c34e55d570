// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/http"
	"time"
)

// authorize says whether the request may reach its destination. User ports are open to whoever knows
// the id, unless the sandbox has a secure-access token; the ports of execd and egress never are.
func (x *exchange) authorize() *apiError {
	if x.signature.isPresent() {
		if x.signature.verifies(x.settings, x.id, x.port, time.Now()) {
			return nil
		}
		return noAccess("the signature is wrong or has expired")
	}
	if x.settings.isMultiTenant && x.form == byPath {
		if err := x.checkKey(); err != nil {
			return err
		}
	}
	if x.sandbox.secureToken.isSet && !x.sandbox.secureToken.matches(x.r.Header.Get(secureAccessHeader)) {
		return noAccess("OpenSandbox-Secure-Access is missing or wrong")
	}
	switch x.port {
	case execdPort:
		return x.checkToken(&x.sandbox.execdToken, tokenHeader, "X-EXECD-ACCESS-TOKEN")
	case egressPort:
		if !x.sandbox.hasEgress {
			return nil // there is no token to ask for: admit says what is missing
		}
		return x.checkToken(&x.sandbox.egressToken, egressTokenHeader, "OPENSANDBOX-EGRESS-AUTH")
	}
	return nil
}

// checkToken wants the token of the port or an API key.
func (x *exchange) checkToken(token *secret, header, name string) *apiError {
	if token.matches(x.r.Header.Get(header)) {
		return nil
	}
	switch err := x.checkKey(); {
	case err == nil:
		return nil
	case err.Code == codeInvalidKey:
		return err
	}
	return noAccess(name + " is missing or wrong, and there is no API key")
}

// checkKey wants an API key that counts for the sandbox.
func (x *exchange) checkKey() *apiError {
	key := x.r.Header.Get(apiKeyHeader)
	if key == "" {
		return &apiError{http.StatusUnauthorized, codeMissingKey, "OPEN-SANDBOX-API-KEY is missing"}
	}
	owners := x.sandbox.owners
	if owners == nil {
		owners = x.settings.keys
	}
	if !owners.hasKey(key) {
		return &apiError{http.StatusUnauthorized, codeInvalidKey, "OPEN-SANDBOX-API-KEY is wrong"}
	}
	return nil
}

func noAccess(message string) *apiError {
	return &apiError{http.StatusUnauthorized, codeNoAccess, message}
}
