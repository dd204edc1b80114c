// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
)

// Followed is one kind of object by which a restored store is found.
type Followed struct {
	Resource Resource
	Loop     interface {
		Revision() uint64
		Watermarks() (all []Watermark, stream int)
		Confirmed(Watermark)
		Prove() int
		Proven(check int) bool
	}
}

// restoreDetector finds out whether a cluster's etcd was restored from a backup. Its
// watches would stay silent until the revisions have caught up (kubernetes#107457), or,
// when they have done so before the watches are back, leave out what was lost; nothing
// else would tell. There are three signs: a list of a lower revision than was seen
// before, an object of a lower one, and an object that is missing although its deletion
// was never told by a stream that is proven to live. It is for one goroutine.
type restoreDetector struct {
	followed []Followed
	// read are the highest revisions of lists that the detector itself has read, by place
	// in followed.
	read map[int]uint64
	// missing are objects that were not there when last asked for, with the check of their
	// stream that is to show that it brought all that happened until then.
	missing map[missing]int
}

// missing is an object that is not there, while a stream brings no news of it.
type missing struct {
	followed  int
	watermark Watermark
	stream    int
}

func newRestoreDetector(followed []Followed) *restoreDetector {
	return &restoreDetector{followed: followed, read: map[int]uint64{}, missing: map[missing]int{}}
}

// doubtful reports whether to ask again soon: an object is missing, and the news of its
// deletion may be on the way.
func (d *restoreDetector) doubtful() bool { return len(d.missing) > 0 }

// detect compares what the cluster shows with what was observed of it and returns an
// error that wraps ErrWentBack if it went back. A second question excludes a server that
// lags behind its peers.
func (d *restoreDetector) detect(ctx context.Context, s *Session) error {
	var err error
	for range 2 {
		if err = d.regressed(ctx, s); !errors.Is(err, ErrWentBack) {
			return nil
		}
	}
	clear(d.read)
	clear(d.missing)
	return err
}

// regressed returns ErrWentBack on one of the three signs.
func (d *restoreDetector) regressed(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	absent := map[missing]int{}
	for i, kind := range d.followed {
		seen := max(kind.Loop.Revision(), d.read[i])
		revision, err := s.revision(ctx, kind.Resource)
		if err != nil {
			return err
		}
		if revision != 0 && revision < seen {
			return fmt.Errorf("%w: a list of %s shows revision %d, %d was seen before", ErrWentBack, kind.Resource.Resource, revision, seen)
		}
		d.read[i] = revision
		if err := d.compare(ctx, s, i, absent); err != nil {
			return err
		}
	}
	d.missing = absent
	return nil
}

// compare asks for the objects of which was observed last.
func (d *restoreDetector) compare(ctx context.Context, s *Session, i int, absent map[missing]int) error {
	kind := d.followed[i]
	watermarks, stream := kind.Loop.Watermarks()
	for _, w := range watermarks {
		revision, outcome := s.objectRevision(ctx, kind.Resource, w.Key)
		switch {
		case outcome == Gone:
			lost := missing{i, w, stream}
			check, known := d.missing[lost]
			if known && kind.Loop.Proven(check) {
				return fmt.Errorf("%w: %s %s is missing, and no watch tells that it was deleted", ErrWentBack, kind.Resource.Resource, w.Key)
			}
			if !w.Gone {
				if !known {
					check = kind.Loop.Prove()
				}
				if stream != 0 {
					absent[lost] = check
				}
				continue
			}
		case outcome == Refused:
			continue // there, or everywhere; revisions still tell
		case outcome != There:
			return nil
		case revision != 0 && revision < w.Revision:
			return fmt.Errorf("%w: %s %s is at revision %d, %d was seen before", ErrWentBack, kind.Resource.Resource, w.Key, revision, w.Revision)
		}
		kind.Loop.Confirmed(w)
	}
	return nil
}
