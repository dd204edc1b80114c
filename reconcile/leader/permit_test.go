// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A request under way ends with the Permit, by time or because it is revoked, and with its
// own context.
func TestRequestEndsWithThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Permit
		if _, _, ok := p.Hold(t.Context()); ok {
			t.Fatal("held from the beginning")
		}
		send := func(parent context.Context) (took time.Duration, cause error) {
			began := time.Now()
			ctx, release, ok := p.Hold(parent)
			if !ok {
				t.Fatal("not held")
			}
			defer release()
			<-ctx.Done()
			return time.Since(began), context.Cause(ctx)
		}
		p.extend(time.Now().Add(3 * time.Second))
		if took, err := send(t.Context()); took != 3*time.Second || !errors.Is(err, ErrNotLeading) {
			t.Errorf("ended after %s: %v", took, err)
		}
		p.extend(time.Now().Add(time.Minute))
		time.AfterFunc(time.Second, p.revoke)
		if took, err := send(t.Context()); took != time.Second || !errors.Is(err, ErrNotLeading) {
			t.Errorf("ended after %s: %v", took, err)
		}
		p.extend(time.Now().Add(time.Minute))
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, err := send(parent); took != time.Second || errors.Is(err, ErrNotLeading) {
			t.Errorf("ended after %s: %v", took, err)
		}
		p.revoke()
	})
}

// What a woken process still has in its buffers never leaves it; what is read before
// anybody leads does.
func TestConnectionSendsNothingAfterThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Permit
		connect := func() net.Conn {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far); far.Close() }()
			c, err := p.Dial(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := connect()
		if _, err := first.Write([]byte("GET")); err != nil {
			t.Fatalf("before anybody leads: %v", err)
		}
		p.extend(time.Now().Add(time.Second))
		if _, err := first.Write([]byte("PUT")); err != nil {
			t.Fatalf("with the permit: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := first.Write([]byte("PUT")); !errors.Is(err, ErrNotLeading) {
			t.Errorf("after it has lapsed: %v", err)
		}
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open")
		}
		p.revoke()
		second := connect()
		if _, err := second.Write([]byte("GET")); err != nil {
			t.Errorf("a standby cannot read: %v", err)
		}
		second.Close()
	})
}

// A machine that sleeps stops the monotonic clock, and a clock that is set does not move
// it: the Permit ends by whichever is first.
func TestPermitEndsByEitherClock(t *testing.T) {
	for name, until := range map[string]time.Time{
		"monotonic": time.Now().Add(-time.Second),
		"wall":      time.Now().Round(0).Add(-time.Second),
	} {
		p := &Permit{}
		p.extend(until)
		if held, lapsed := p.state(); held || !lapsed {
			t.Errorf("%s: held %t, lapsed %t", name, held, lapsed)
		}
		p.extend(time.Now().Add(9 * time.Second))
		if held, _ := p.state(); !held {
			t.Errorf("%s: a renewal does not hold it again", name)
		}
		p.revoke()
	}
}
