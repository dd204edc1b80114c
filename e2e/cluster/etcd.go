// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

func (c *Cluster) prepareEtcd() error {
	if other := c.options.EtcdOf; other != nil {
		c.etcdURL = other.etcdURL
		return nil
	}
	client, err := loopbackURL()
	if err != nil {
		return err
	}
	peer, err := loopbackURL()
	if err != nil {
		return err
	}
	c.etcdURL = client
	args := []string{
		"etcd", "--name=" + c.options.Name, "--data-dir=" + c.etcdData(),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + c.options.Name + "=" + peer,
		// A start applies the entries after the last snapshot, 10,000 at most, and drops all but the last 5,000 before
		// raft knows that they are applied: an election at that moment looks for them, and etcd panics.
		"--snapshot-catchup-entries=20000",
		"--quota-backend-bytes=" + strconv.Itoa(8<<30), "--log-level=warn",
		// A test survives the crash of a process, which needs no fsync, and not the crash of the machine, which does.
		"--unsafe-no-fsync",
	}
	c.etcd = NewProcess(ProcessOptions{
		Name: c.options.Name + "/etcd", Path: c.binary, Args: args,
		Log: c.file("etcd.log"), Ground: true, TermIsClean: true,
		Ready: func(ctx context.Context) error { return c.ask(ctx, client+"/readyz", nil) },
	})
	return nil
}

func (c *Cluster) etcdData() string { return c.file("etcd") }

// Snapshot is a copy of everything that a cluster had stored at one moment. The zero Snapshot is an empty store.
type Snapshot struct{ dir string }

// Snapshot copies the current store. The store is frozen for the copy, some ten milliseconds; no client is
// disconnected. The copy is what a crash at that moment would leave, from which etcd can start.
func (c *Cluster) Snapshot(ctx context.Context) (Snapshot, error) {
	if c.etcd == nil {
		return Snapshot{}, fmt.Errorf("snapshot of %s: %w", c.options.Name, errSharedEtcd)
	}
	c.mu.Lock()
	c.snapshots++
	s := Snapshot{dir: c.file("snapshot-" + strconv.Itoa(c.snapshots))}
	c.mu.Unlock()
	frozen := c.etcd.Running()
	if frozen {
		if err := c.etcd.Freeze(); err != nil {
			return Snapshot{}, fmt.Errorf("snapshot of %s: %w", c.options.Name, err)
		}
	}
	err := os.CopyFS(s.dir, os.DirFS(c.etcdData()))
	if frozen {
		err = errors.Join(err, c.etcd.Thaw())
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of %s: %w", c.options.Name, err)
	}
	return s, ctx.Err()
}

// Restore restores the store from a snapshot, as an operator restores a backup: both servers go down, the data
// is replaced, both come up at their old addresses. The revision is not raised, so resourceVersions run backwards. With
// the zero Snapshot, or with another cluster's, the cluster behind the address becomes another one.
func (c *Cluster) Restore(ctx context.Context, s Snapshot) error {
	if c.etcd == nil {
		return fmt.Errorf("restore %s: %w", c.options.Name, errSharedEtcd)
	}
	c.apiserver.Kill()
	c.etcd.Kill()
	err := os.RemoveAll(c.etcdData())
	if err == nil && s.dir != "" {
		// etcd refuses a data directory that others may read.
		err = errors.Join(os.CopyFS(c.etcdData(), os.DirFS(s.dir)), privateDirs(c.etcdData()))
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.options.Name, err)
	}
	if err := c.etcd.Start(ctx); err != nil {
		return err
	}
	if err := c.apiserver.Start(ctx); err != nil {
		return err
	}
	return c.awaitFirstObjects(ctx)
}

var errSharedEtcd = errors.New("its store is another cluster's")

func privateDirs(root string) error {
	return filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
}

// Revision is the store's revision: the resourceVersion of the newest write.
func (c *Cluster) Revision(ctx context.Context) (int64, error) {
	var status struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	if err := c.etcdCall(ctx, "/v3/maintenance/status", struct{}{}, &status); err != nil {
		return 0, fmt.Errorf("revision of %s: %w", c.options.Name, err)
	}
	return status.Header.Revision, nil
}

// Compact forgets all older revisions now, as the apiserver does every five minutes: a watch or a list that asks for a
// revision before this one is answered 410 Gone, once the apiserver's own cache has dropped it too (as by a restart).
func (c *Cluster) Compact(ctx context.Context) error {
	revision, err := c.Revision(ctx)
	if err != nil {
		return err
	}
	request := map[string]any{"revision": strconv.FormatInt(revision, 10), "physical": true}
	if err := c.etcdCall(ctx, "/v3/kv/compaction", request, nil); err != nil {
		return fmt.Errorf("compact %s: %w", c.options.Name, err)
	}
	return nil
}

// etcdCall uses the JSON gateway of etcd, so that no etcd client becomes a dependency of every scenario.
func (c *Cluster) etcdCall(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := c.do(req)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// operation is one operation of a transaction, by the name of its field in etcd's JSON.
type operation map[string]map[string][]byte

// transactionLimit is how many operations etcd accepts in a transaction.
const transactionLimit = 128

// transaction performs all operations at once.
func (c *Cluster) transaction(ctx context.Context, all []operation) error {
	return c.etcdCall(ctx, "/v3/kv/txn", map[string]any{"success": all}, nil)
}

// ask sends a GET, and returns an error unless the response has status 200.
func (c *Cluster) ask(ctx context.Context, url string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	_, err = c.do(req)
	return err
}

func (c *Cluster) do(req *http.Request) ([]byte, error) {
	resp, err := c.probe.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %.300s", req.Method, req.URL, resp.Status, body)
	}
	return body, nil
}

// loopbackURL returns an http address with a free port.
func loopbackURL() (string, error) {
	address, err := FreeAddress()
	return "http://" + address, err
}

// Stored is an object as an apiserver stores it: its key below the prefix of the cluster, and its encoded value.
type Stored struct {
	Key   string
	Value []byte
}

// Store writes objects past the apiserver, which shows them like any other: a hundred thousand take seconds, not minutes.
// Nothing defaults or validates them. One transaction writes all, which etcd limits to transactionLimit and 1.5 MB.
func (c *Cluster) Store(ctx context.Context, objects []Stored) error {
	var all []operation
	for _, o := range objects {
		all = append(all, operation{"requestPut": {"key": []byte(c.prefix() + o.Key), "value": o.Value}})
	}
	if err := c.transaction(ctx, all); err != nil {
		return fmt.Errorf("store objects of %s: %w", c.options.Name, err)
	}
	return nil
}
