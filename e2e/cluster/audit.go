// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Write is one write request that the apiserver answered, whether it changed anything or not.
type Write struct {
	Time      time.Time // when the request arrived
	User      string
	Verb      string // create, update, patch, delete, deletecollection
	Resource  string
	Namespace string
	Name      string
	Code      int // HTTP status of the answer
	DryRun    bool
}

// CountWrites counts the writes that match.
func CountWrites(writes []Write, match func(Write) bool) int {
	n := 0
	for _, w := range writes {
		if match(w) {
			n++
		}
	}
	return n
}

// auditLog reads the apiserver's audit log as it grows.
type auditLog struct {
	path string // "" if the cluster was started without Audit

	mu      sync.Mutex
	offset  int64
	writes  []Write
	markers map[string]bool // audit ids of our own markers that were seen
}

var errNoAudit = errors.New("it was started without Options.Audit")

// Writes returns every write request that the apiserver has answered since the cluster was started or
// reset, in the order of the responses. The apiserver counts them, not the client: retries, no-ops and refusals are included.
//
// It is exact: it sends a marker of its own, which is not returned, and reads until the marker is in the log. The
// apiserver logs a write before it responds, so whatever was answered before the call is in the result.
func (c *Cluster) Writes(ctx context.Context) ([]Write, error) {
	fail := func(err error) ([]Write, error) {
		return nil, fmt.Errorf("writes of %s: %w", c.options.Name, err)
	}
	if c.audit.path == "" {
		return fail(errNoAudit)
	}
	marker := markerPrefix + rand.Text()
	if err := c.sendMarker(ctx, marker); err != nil {
		return fail(err)
	}
	var writes []Write
	err := poll(ctx, 5*time.Millisecond, func(context.Context) (err error) {
		writes, err = c.audit.readUntil(marker)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return writes, nil
}

// sendMarker sends a request that the log records as a write, that stores nothing, and whose audit id we choose.
func (c *Cluster) sendMarker(ctx context.Context, id string) error {
	const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader(review))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + c.admin.Token}, "Content-Type": {"application/json"}, "Audit-Id": {id}}
	resp, err := c.probe.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("marker: %s: %s", resp.Status, text)
	}
	return nil
}

const markerPrefix = "e2e-marker-"

var errMarkerPending = errors.New("the marker is not in the audit log yet")

// readUntil reads what was appended, and returns all writes so far if the marker has been read by now.
func (a *auditLog) readUntil(marker string) ([]Write, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // an unfinished line is read again next time
		}
		if err != nil {
			return nil, err
		}
		a.offset += int64(len(line))
		if err := a.add(bytes.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	if !a.markers[marker] {
		return nil, errMarkerPending
	}
	return slices.Clone(a.writes), nil
}

// forget forgets what was read so far.
func (a *auditLog) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes, a.markers = nil, nil
}

// auditEvent has the fields of audit.k8s.io/v1 Event that are used here.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceived time.Time `json:"requestReceivedTimestamp"`
}

func (a *auditLog) add(line []byte) error {
	var e auditEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("audit log %s: %w", a.path, err)
	}
	if strings.HasPrefix(e.AuditID, markerPrefix) {
		if a.markers == nil {
			a.markers = map[string]bool{}
		}
		a.markers[e.AuditID] = true
		return nil
	}
	uri, err := url.Parse(e.RequestURI)
	if err != nil {
		return fmt.Errorf("audit log %s: %w", a.path, err)
	}
	a.writes = append(a.writes, Write{
		Time: e.RequestReceived, User: e.User.Username, Verb: e.Verb,
		Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
		DryRun: uri.Query().Has("dryRun"),
	})
	return nil
}
