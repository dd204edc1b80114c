// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
)

// prefix is the prefix of the keys of this cluster's objects.
func (c *Cluster) prefix() string {
	if c.options.EtcdOf != nil {
		return "/" + c.options.Name
	}
	return "/registry"
}

// rememberFirst records what is stored once the cluster has started, for Reset.
func (c *Cluster) rememberFirst(ctx context.Context) error {
	var all struct {
		Kvs []struct{ Key []byte }
	}
	request := map[string]any{"key": []byte(c.prefix() + "/"), "range_end": []byte(c.prefix() + "0"), "keys_only": true}
	if err := c.etcdCall(ctx, "/v3/kv/range", request, &all); err != nil {
		return err
	}
	for _, kv := range all.Kvs {
		c.first = append(c.first, string(kv.Key))
	}
	slices.Sort(c.first)
	return nil
}

// Reset makes the cluster one that has just started: controller managers end, both servers run, every object that the
// API server did not create itself at its start is deleted, and Writes begins anew. It deletes in the store: namespaces
// go at once, whatever their finalizers, and watches get ordinary DELETE events. Edits of the first objects remain.
func (c *Cluster) Reset(ctx context.Context) error {
	fail := func(err error) error { return fmt.Errorf("reset %s: %w", c.options.Name, err) }
	c.mu.Lock()
	for _, m := range c.controllers {
		m.Kill()
	}
	c.controllers = nil
	c.mu.Unlock()
	for _, p := range []*Process{c.etcd, c.apiserver} {
		if p == nil {
			continue
		}
		if err := p.Thaw(); err != nil {
			return fail(err)
		}
		if !p.Running() {
			if err := p.Start(ctx); err != nil {
				return fail(err)
			}
		}
	}
	if err := poll(ctx, readyPoll, c.apiserver.options.Ready); err != nil {
		return fail(err)
	}
	// One operation deletes everything between two neighbours among the first objects.
	var all []operation
	from := c.prefix() + "/"
	for _, next := range append(slices.Clone(c.first), c.prefix()+"0") {
		all = append(all, operation{"requestDeleteRange": {"key": []byte(from), "range_end": []byte(next)}})
		from = next + "\x00"
	}
	for some := range slices.Chunk(all, transactionLimit) {
		if err := c.transaction(ctx, some); err != nil {
			return fail(err)
		}
	}
	if c.audit.path == "" {
		return nil
	}
	if _, err := c.Writes(ctx); err != nil {
		return err
	}
	c.audit.forget()
	return nil
}
