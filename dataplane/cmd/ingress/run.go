// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"opensandbox.io/dataplane/ingress"
	"opensandbox.io/dataplane/listen"
)

// errServerGone ends the program when the control channel does: the next server starts a new ingress.
var errServerGone = errors.New("the control channel has ended")

// run serves until ctx or the control channel ends, then lets open requests finish.
func run(ctx context.Context, c config) error {
	if c.drop != nil {
		if err := become(*c.drop); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.logLevel}))
	// net/http prints what a backend says out of turn; it must not look like a line of ours.
	slog.SetDefault(log)
	slog.SetLogLoggerLevel(slog.LevelDebug)
	channel, err := openControl(c.controlFD)
	if err != nil {
		return err
	}
	defer channel.Close()
	server, err := ingress.New(c.api, log)
	if err != nil {
		return fmt.Errorf("-api: %w", err)
	}
	defer server.Close()
	server.SetLimits(ingress.LimitsFor(c.limits, descriptors()))
	listeners, err := listen.All(c.listen)
	if err != nil {
		return err
	}
	defer listen.Close(listeners)
	return serve(ctx, c, server, channel, listeners, log)
}

// serve answers on every listener. Until it knows what to serve, clients wait in the queues of the
// sockets.
func serve(ctx context.Context, c config, server *ingress.Server, channel net.Conn, listeners []net.Listener, log *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.ServeControl(channel); err != nil {
			return err
		}
		return errServerGone
	})
	httpServer := server.NewHTTPServer()
	group.Go(func() error {
		<-ctx.Done()
		drain(httpServer, server, c.drainTimeout, log)
		return channel.Close()
	})
	select {
	case <-server.Configured():
		for _, listener := range listeners {
			log.Info("listening", "address", listener.Addr().String(), "version", version)
			group.Go(func() error {
				if err := httpServer.Serve(server.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
					return fmt.Errorf("serve %s: %w", listener.Addr(), err)
				}
				return nil
			})
		}
	case <-ctx.Done():
	}
	if err := group.Wait(); !errors.Is(err, errServerGone) {
		return err
	}
	return nil
}

// drain stops accepting, closes WebSockets with "going away", and gives requests the time to end.
func drain(httpServer *http.Server, server *ingress.Server, timeout time.Duration, log *slog.Logger) {
	log.Info("draining", "timeout", timeout.String())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		server.CloseWebSockets()
	}()
	if httpServer.Shutdown(ctx) != nil {
		_ = httpServer.Close() // those that are left are cut
	}
	<-closed
}

// descriptors is how many this process may have open. Go has raised it to what is allowed at most.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return limit.Cur
}

// openControl takes the socket that our parent made.
func openControl(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "control")
	if file == nil {
		return nil, fmt.Errorf("-control-fd: descriptor %d is not open", fd)
	}
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("-control-fd: descriptor %d is not a socket: %w", fd, err)
	}
	return conn, nil
}
