// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// socketTimeout bounds one command.
const socketTimeout = 5 * time.Second

// runtimeSocket sends commands to HAProxy, each by a connection of its own.
func runtimeSocket(path string) func(command string) (string, error) {
	return func(command string) (string, error) {
		conn, err := net.DialTimeout("unix", path, socketTimeout)
		if err != nil {
			return "", fmt.Errorf("reach HAProxy: %w", err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(socketTimeout)); err != nil {
			return "", err
		}
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

// server is one of HAProxy's.
type server struct {
	// takes is whether it gets new requests, sessions how many it has.
	takes    bool
	sessions int
}

// backends asks for all backends, and the servers of each by name.
func (r *receiver) backends() (map[string]map[string]server, error) {
	answer, err := r.run("show stat -1 6 -1") // no frontends
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(answer, "# pxname,") {
		return nil, fmt.Errorf("HAProxy's statistics: %.100q", answer)
	}
	lines := csv.NewReader(strings.NewReader(strings.TrimPrefix(answer, "# ")))
	lines.FieldsPerRecord = -1
	all, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("HAProxy's statistics: %w", err)
	}
	column := map[string]int{}
	for i, name := range all[0] {
		column[name] = i
	}
	out := map[string]map[string]server{}
	for _, line := range all[1:] {
		field := func(name string) string {
			if i, known := column[name]; known && i < len(line) {
				return line[i]
			}
			return ""
		}
		backend, name, status := field("pxname"), field("svname"), field("status")
		if out[backend] == nil {
			out[backend] = map[string]server{}
		}
		if name == "BACKEND" { // all of them in sum
			continue
		}
		sessions, _ := strconv.Atoi(field("scur"))
		out[backend][name] = server{takes: !strings.HasPrefix(status, "DRAIN") && !strings.HasPrefix(status, "MAINT"), sessions: sessions}
	}
	return out, nil
}
