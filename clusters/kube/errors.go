// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrOtherCluster is another cluster at the address. Nothing it shows is used.
var ErrOtherCluster = errors.New("another cluster answers")

// ErrWentBack is a cluster whose revisions are lower than they were, as after its
// etcd was restored from a backup.
var ErrWentBack = errors.New("the cluster went back in time")

// ErrTooManyObjects is returned by a list that exceeds Config.MaxObjects. The
// list is not applied.
var ErrTooManyObjects = errors.New("more objects than allowed")

// ErrTooLarge is an answer of more bytes than are read. A list of which even a page of one
// object is one is not applied.
var ErrTooLarge = errors.New("the answer is larger than allowed")

// ErrUndecodable is wrapped by Stream.Err when the stream could not be read on
// because of what it contained, not because the connection failed.
var ErrUndecodable = errors.New("the watch stream cannot be read")

// errNoSession is a cluster that is not reached.
var errNoSession = errors.New("the cluster is not connected")

// errListNeverEnds is a server that keeps answering empty pages with a
// continue token.
var errListNeverEnds = errors.New("the server keeps sending empty pages of a list")

// errNoList is an answer that would pass for a list without objects although it is
// none: whoever sends a list sends its revision.
var errNoList = errors.New("the answer is not a list")

// errNoInitialEnd is a server that accepted a streaming list and never said
// that the initial objects were complete: it ignored the request's parameters.
var errNoInitialEnd = errors.New("the streaming list was never completed by the server")

// errOpenTimeout is a watch that the server did not accept in time.
var errOpenTimeout = errors.New("the server did not answer the watch in time")

// isExpired reports whether the revision or continue token is no longer known.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// errRolesOnly is the refusal that a cluster would answer which grants Roles alone.
func errRolesOnly(r Resource) error {
	return apierrors.NewForbidden(r.GroupResource(), "", errors.New("rolesOnly: it is not asked for"))
}

// isUnsupported reports whether the server understood the request and will
// refuse it again.
func isUnsupported(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err) ||
		errors.Is(err, errNoInitialEnd)
}
