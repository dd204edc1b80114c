// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerVersion is what a server says of itself.
type ServerVersion struct {
	// Git is the full version, such as "v1.36.3".
	Git          string
	Major, Minor int
}

// AtLeast reports whether the server is of that minor version or newer. A
// version that could not be read is older than any.
func (v ServerVersion) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// String returns the full version.
func (v ServerVersion) String() string { return v.Git }

// versionLength bounds what is kept of a version: it is shown to users.
const versionLength = 64

// Version asks the server for its version.
func (c *Connection) Version(ctx context.Context) (ServerVersion, error) {
	body, err := c.clientset.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return ServerVersion{}, fmt.Errorf("read the version of cluster %s: %w", c.cluster, err)
	}
	var said struct{ Major, Minor, GitVersion string }
	if err := json.Unmarshal(body, &said); err != nil {
		return ServerVersion{}, fmt.Errorf("read the version of cluster %s: %w", c.cluster, err)
	}
	return ServerVersion{
		Git:   said.GitVersion[:min(len(said.GitVersion), versionLength)],
		Major: leadingNumber(said.Major),
		Minor: leadingNumber(said.Minor),
	}, nil
}

// Offers asks the server whether its API has a version of a group, such as
// "discovery.k8s.io/v1".
func (c *Connection) Offers(ctx context.Context, groupVersion string) (bool, error) {
	body, err := c.clientset.CoreV1().RESTClient().Get().AbsPath("/apis").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return false, fmt.Errorf("read the API groups of cluster %s: %w", c.cluster, err)
	}
	var said metav1.APIGroupList
	if err := json.Unmarshal(body, &said); err != nil || len(said.Groups) == 0 {
		return false, fmt.Errorf("read the API groups of cluster %s: it lists none (%w)", c.cluster, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return slices.ContainsFunc(said.Groups, func(g metav1.APIGroup) bool {
		return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == groupVersion })
	}), nil
}

// leadingNumber reads "36" and also "17+", as some vendors say; 0 for neither.
func leadingNumber(s string) int {
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// Identity asks for the UID of the kube-system namespace: of all that a cluster
// holds, the thing that is made first, never made anew, and never the same twice.
func (c *Connection) Identity(ctx context.Context) (string, error) {
	if c.rolesOnly {
		return "", errRolesOnly(Namespaces)
	}
	ns := new(corev1.Namespace)
	request := c.clientset.CoreV1().RESTClient().Get().Resource(Namespaces.Resource).Name(metav1.NamespaceSystem)
	if err := request.MaxRetries(0).Do(ctx).Into(ns); err != nil {
		return "", fmt.Errorf("read namespace %s of cluster %s: %w", metav1.NamespaceSystem, c.cluster, err)
	}
	return string(ns.UID), nil
}
