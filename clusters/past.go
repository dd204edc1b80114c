// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
)

// past finds out whether a member's etcd was restored from a backup. Its watches would
// stay silent until the revisions have caught up, or, when they have done so before
// the watches are back, leave out what was lost; nothing else would tell. There are
// three signs: a list of a lower revision than was seen before, an object of a lower
// one, and an object that is missing although its deletion was never told.
type past struct {
	m *Member
	// read are the highest revisions of lists that past itself has read.
	read map[string]uint64
	// missing are objects that were not there at the last look.
	missing map[missing]bool
}

// missing is an object that is not there, while a stream brings no news of it.
type missing struct {
	resource string
	mark     kube.Watermark
	stream   int
}

func newPast(m *Member) *past {
	return &past{m: m, read: map[string]uint64{}, missing: map[missing]bool{}}
}

// followed is one kind of object that a member's past is judged by.
type followed struct {
	resource kube.Resource
	loop     interface {
		Revision() uint64
		Watermarks() (all []kube.Watermark, stream int)
		Confirmed(kube.Watermark)
	}
}

func (p *past) kinds() []followed {
	return []followed{{resourceServices, p.m.loops.services}, {resourcePods, p.m.loops.pods}}
}

// doubtful reports whether another look is due soon: an object is missing, and the news
// of its deletion may be on the way.
func (p *past) doubtful() bool { return len(p.missing) > 0 }

// look compares what the member shows with what was heard from it. If it went back, all
// is read anew. A second look excludes a server that lags behind its peers.
func (p *past) look(ctx context.Context, l *link) {
	var err error
	for range 2 {
		if err = p.regressed(ctx, l); !errors.Is(err, ErrWentBack) {
			return
		}
	}
	clear(p.read)
	clear(p.missing)
	p.m.health.note(func(f *facts) { f.wentBack(err) })
	p.m.each(looper.WentBack)
}

// regressed returns ErrWentBack on one of the three signs.
func (p *past) regressed(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	absent := map[missing]bool{}
	for _, kind := range p.kinds() {
		seen := max(kind.loop.Revision(), p.read[kind.resource.Resource])
		revision, err := l.revision(ctx, kind.resource)
		if err != nil {
			return err
		}
		if revision != 0 && revision < seen {
			return fmt.Errorf("%w: a list of %s shows revision %d, %d was seen before", ErrWentBack, kind.resource.Resource, revision, seen)
		}
		p.read[kind.resource.Resource] = revision
		if err := p.compare(ctx, l, kind, absent); err != nil {
			return err
		}
	}
	p.missing = absent
	return nil
}

// compare asks for the objects of which was heard last.
func (p *past) compare(ctx context.Context, l *link, kind followed, absent map[missing]bool) error {
	marks, stream := kind.loop.Watermarks()
	for _, mark := range marks {
		revision, err := l.objectRevision(ctx, kind.resource, mark)
		switch {
		case apierrors.IsNotFound(err):
			lost := missing{kind.resource.Resource, mark, stream}
			if p.missing[lost] {
				return fmt.Errorf("%w: %s %s is missing, and no watch tells that it was deleted", ErrWentBack, kind.resource.Resource, mark.Key)
			}
			if !mark.Gone {
				if stream != 0 {
					absent[lost] = true
				}
				continue
			}
		case err != nil:
			return nil // `get` may not be granted; revisions still tell
		case revision != 0 && revision < mark.Revision:
			return fmt.Errorf("%w: %s %s is at revision %d, %d was seen before", ErrWentBack, kind.resource.Resource, mark.Key, revision, mark.Revision)
		}
		kind.loop.Confirmed(mark)
	}
	return nil
}

// revision reads the revision of a list of at most one object.
func (l *link) revision(ctx context.Context, r kube.Resource) (uint64, error) {
	r.Namespace = l.scope
	list, err := l.gate.guard(kube.REST(l.conn.core(), r)).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return store.Revision(accessor.GetResourceVersion()), nil
}

const (
	// metadataOnly spares both sides the object itself; a server that does not know
	// the form sends all of it.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	// objectBytes bounds what is read of one object.
	objectBytes = 4 << 20
)

// objectRevision reads the revision of one object from the member's etcd: a GET, unlike
// a list, is never answered from a cache.
func (l *link) objectRevision(ctx context.Context, r kube.Resource, mark kube.Watermark) (uint64, error) {
	body, err := l.conn.core().Get().Namespace(mark.Key.Namespace).Resource(r.Resource).Name(mark.Key.Name).
		SetHeader("Accept", metadataOnly).MaxRetries(0).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var object metav1.PartialObjectMetadata
	if err := json.NewDecoder(io.LimitReader(body, objectBytes)).Decode(&object); err != nil {
		return 0, fmt.Errorf("read %s %s: %w", r.Resource, mark.Key, err)
	}
	return store.Revision(object.ResourceVersion), nil
}
