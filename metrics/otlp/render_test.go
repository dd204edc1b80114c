// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// render writes spans as a collector got them, with times relative to begin.
func render(spans []*trace.Span, begin time.Time) string {
	names := map[string]string{}
	for _, s := range spans {
		names[hex.EncodeToString(s.GetTraceId())+hex.EncodeToString(s.GetSpanId())] = s.GetName()
	}
	since := func(nanos uint64) time.Duration { return time.Duration(int64(nanos) - begin.UnixNano()) }
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.GetName())
		if parent := s.GetParentSpanId(); len(parent) > 0 {
			fmt.Fprintf(&b, " in %s", names[hex.EncodeToString(s.GetTraceId())+hex.EncodeToString(parent)])
		}
		fmt.Fprintf(&b, ": %v +%v\n", since(s.GetStartTimeUnixNano()), time.Duration(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()))
		for _, prefix := range []string{"k8s.", "tributary.cause.", "tributary.change."} {
			of := slices.DeleteFunc(slices.Clone(s.GetAttributes()), func(a *common.KeyValue) bool { return !strings.HasPrefix(a.GetKey(), prefix) })
			if len(of) > 0 {
				fmt.Fprintf(&b, "  %s\n", attributesOf(of))
			}
		}
		for _, event := range s.GetEvents() {
			fmt.Fprintf(&b, "  %s at %v: %s\n", event.GetName(), since(event.GetTimeUnixNano()), attributesOf(event.GetAttributes()))
		}
		if status := s.GetStatus(); status.GetCode() == trace.Status_STATUS_CODE_ERROR {
			fmt.Fprintf(&b, "  error: %s\n", status.GetMessage())
		}
	}
	return b.String()
}

func attributesOf(list []*common.KeyValue) string {
	var out []string
	for _, a := range list {
		out = append(out, a.GetKey()+"="+valueOf(a.GetValue()))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func valueOf(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_ArrayValue:
		var out []string
		for _, one := range v.ArrayValue.GetValues() {
			out = append(out, valueOf(one))
		}
		return "[" + strings.Join(out, " ") + "]"
	}
	return fmt.Sprintf("%T", v)
}
