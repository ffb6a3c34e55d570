// SPDX-License-Identifier: Apache-2.0

// A registry of images on a loopback port, in memory, for the tests of `images pull`. It prints its
// address; with -login it asks for that user and password. It ends when its standard input does.
package main

import (
	"crypto/subtle"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	login := flag.String("login", "", "user:password that every request needs")
	flag.Parse()
	if err := run(*login); err != nil {
		log.Fatal(err)
	}
}

func run(login string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = listener.Close()
	}()
	fmt.Println(listener.Addr())
	err = http.Serve(listener, guarded(login, registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	return fmt.Errorf("serve: %w", err)
}

func guarded(login string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		given := []byte(user + ":" + password)
		if login != "" && subtle.ConstantTimeCompare(given, []byte(login)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry of the tests"`)
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
