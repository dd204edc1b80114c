// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// repairEvery is the time between two looks at HAProxy: for servers that have drained, and for
	// an HAProxy that has restarted and knows none.
	repairEvery = time.Second
	// socketTimeout bounds one command.
	socketTimeout = 5 * time.Second
)

// receiver keeps the servers of HAProxy equal to what was last sent.
type receiver struct {
	run func(command string) (string, error)

	mu sync.Mutex
	// told is what was last sent of each Service that has a backend, by backend.
	told map[string]service
}

// service has the addresses of the servers that it is to have, by name.
type service struct {
	generation int64
	servers    map[string]string
}

// server is one that HAProxy has: whether it gets new requests, and how many sessions it has.
type server struct {
	takes    bool
	sessions int
}

func newReceiver(run func(string) (string, error)) *receiver {
	return &receiver{run: run, told: map[string]service{}}
}

// take applies events to HAProxy, unless something newer was received.
func (r *receiver) take(events []event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		e := &events[i].Data
		if events[i].Type == typeInventory {
			for backend, s := range r.told {
				named := slices.ContainsFunc(e.Services, func(key string) bool { return strings.Replace(key, "/", "_", 1) == backend })
				if !named && s.generation <= e.Generation {
					r.told[backend] = service{generation: e.Generation}
				}
			}
		} else if backend := e.Namespace + "_" + e.Name; isName(e.Namespace) && isName(e.Name) && e.Generation >= r.told[backend].generation {
			r.told[backend] = service{e.Generation, serversOf(e.Endpoints)}
		}
	}
	return r.lockedApply(false)
}

// isName reports whether a name is nothing else in a command of the socket.
func isName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.') })
}

// serversOf are the servers that a Service is to have, at its first port.
func serversOf(endpoints []endpoint) map[string]string {
	servers := map[string]string{}
	for _, e := range endpoints {
		addr, err := netip.ParseAddr(e.Address)
		if e.Ready && err == nil && addr.Zone() == "" && isName(e.Cluster) && len(e.Ports) > 0 {
			name := strings.ReplaceAll(fmt.Sprintf("%s_%s_%d", e.Cluster, addr, e.Ports[0].Port), ":", "-")
			servers[name] = netip.AddrPortFrom(addr, e.Ports[0].Port).String()
		}
	}
	return servers
}

// repair applies what was received to HAProxy again and again until ctx is done.
func (r *receiver) repair(ctx context.Context) {
	tick := time.NewTicker(repairEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.mu.Lock()
			if err := r.lockedApply(true); err != nil {
				slog.Error("HAProxy is not as it should be", "error", err)
			}
			r.mu.Unlock()
		}
	}
}

// lockedApply brings HAProxy to what was received, by one look at it. What has no backend is
// forgotten, and what was deleted as soon as nothing is left of it. Only a later look removes
// what has drained: even a server that seems idle may have just been chosen.
func (r *receiver) lockedApply(later bool) error {
	if len(r.told) == 0 {
		return nil
	}
	all, err := backends(r.run)
	if err != nil {
		return err
	}
	var faults []error
	for _, backend := range slices.Sorted(maps.Keys(r.told)) {
		current, desired := all[backend], r.told[backend].servers
		if current == nil || len(current)+len(desired) == 0 {
			delete(r.told, backend)
			continue
		}
		faults = append(faults, r.lockedServe(backend, desired, current, later))
	}
	return errors.Join(faults...)
}

// lockedServe brings one backend to what was received: new servers first, so that there is always
// one; then those that are not wanted drain, and go when they have nothing left.
func (r *receiver) lockedServe(backend string, desired map[string]string, current map[string]server, later bool) error {
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		at := backend + "/" + name
		s, known := current[name]
		if !known {
			if err := r.command("add server " + at + " " + desired[name]); err != nil {
				return err
			}
		}
		if !s.takes {
			if err := r.command("set server " + at + " state ready"); err != nil {
				return err
			}
		}
		delete(current, name)
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if err := r.lockedLeave(backend+"/"+name, current[name], later); err != nil {
			return err
		}
	}
	return nil
}

// lockedLeave lets a server finish what it has, and removes it then.
func (r *receiver) lockedLeave(at string, s server, later bool) error {
	if s.takes {
		return r.command("set server " + at + " state drain")
	}
	if s.sessions > 0 || !later {
		return nil
	}
	if err := r.command("set server " + at + " state maint"); err != nil {
		return err
	}
	if err := r.command("del server " + at); err != nil {
		slog.Info("a server has connections yet: it is tried again", "server", at, "error", err)
	}
	return nil
}

// command carries out one that answers nothing, or that something is done.
func (r *receiver) command(text string) error {
	answer, err := r.run(text)
	if err != nil {
		return err
	}
	answer = strings.TrimSpace(answer)
	if !slices.Contains([]string{"", "New server registered.", "Server deleted."}, answer) {
		return errors.New(text + ": " + answer)
	}
	slog.Info("told HAProxy", "command", text)
	return nil
}

// backends asks for all backends, and the servers of each by name.
func backends(run func(string) (string, error)) (map[string]map[string]server, error) {
	answer, err := run("show stat -1 6 -1") // no frontends
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	if !strings.HasPrefix(lines[0], "# pxname,svname,qcur,qmax,scur,") {
		return nil, fmt.Errorf("HAProxy's statistics: %.100q", answer)
	}
	out := map[string]map[string]server{}
	for _, line := range lines[1:] {
		fields := strings.Split(line, ",") // whose places are documented; those needed have no commas
		if len(fields) < 18 {
			return nil, fmt.Errorf("HAProxy's statistics: %.100q", line)
		}
		backend, name, status := fields[0], fields[1], fields[17]
		if out[backend] == nil {
			out[backend] = map[string]server{}
		}
		if name == "BACKEND" { // all of them in sum
			continue
		}
		sessions, _ := strconv.Atoi(fields[4])
		out[backend][name] = server{takes: !strings.HasPrefix(status, "DRAIN") && !strings.HasPrefix(status, "MAINT"), sessions: sessions}
	}
	return out, nil
}

// runtimeSocket sends commands to HAProxy, each by a connection of its own.
func runtimeSocket(path string) func(command string) (string, error) {
	return func(command string) (string, error) {
		conn, err := net.DialTimeout("unix", path, socketTimeout)
		if err != nil {
			return "", fmt.Errorf("reach HAProxy: %w", err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(socketTimeout)) // of a Unix socket it cannot fail
		if _, err := io.WriteString(conn, command+"\n"); err != nil {
			return "", fmt.Errorf("ask HAProxy: %w", err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			return "", fmt.Errorf("read HAProxy's answer: %w", err)
		}
		return string(answer), nil
	}
}
