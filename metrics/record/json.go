// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"strconv"
	"time"
)

// StampFormat is RFC 3339 in UTC with microseconds, always written out, so that
// records sort as text.
const StampFormat = "2006-01-02T15:04:05.000000Z"

// MarshalJSON renders the record as one line, in the order of the contract.
func (r *Change) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(make([]byte, 0, 768)), nil
}

// AppendJSON appends the record as one line of JSON, without a newline. It is
// written by hand because every follower renders every record, and because the
// order and the fixed precision are part of the contract (BenchmarkRecordJSON).
func (r *Change) AppendJSON(b []byte) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = appendTime(append(b, `,"time":`...), r.Time)
	b = appendField(b, "cluster", r.Cluster)
	b = appendField(b, "namespace", r.Namespace)
	b = appendField(b, "service", r.Service)
	b = appendOptional(b, "trace_id", r.TraceID)
	b = appendOptional(b, "lane", r.Lane)
	b = appendOptional(b, "rule", r.rule())
	b = r.Cause.appendJSON(append(b, `,"cause":`...))
	for i := range r.Causes {
		b = append(b, separator(i, `,"causes":[`)...)
		b = r.Causes[i].appendJSON(b)
	}
	if len(r.Causes) > 0 {
		b = append(b, ']')
	}
	b = appendCount(b, "causes_dropped", r.CausesDropped)
	b = appendList(b, "added", r.Added)
	b = appendList(b, "removed", r.Removed)
	b = appendList(b, "readied", r.Readied)
	b = appendList(b, "unreadied", r.Unreadied)
	b = r.Stages.appendJSON(append(b, `,"stages_ms":`...))
	b = strconv.AppendInt(append(b, `,"writes":`...), int64(r.Writes), 10)
	b = appendCount(b, "attempt", r.Attempt)
	b = appendField(b, "result", string(r.Result))
	b = appendField(b, "error", r.Error)
	return append(b, '}')
}

// rule is the rule of the configuration that the change is due to: that of the first of
// its causes that names one.
func (r *Change) rule() string {
	for i := 0; r.Cause.Rule == "" && i < len(r.Causes); i++ {
		if rule := r.Causes[i].Rule; rule != "" {
			return rule
		}
	}
	return r.Cause.Rule
}

// MarshalJSON renders the cause with its arrival in UTC.
func (c Cause) MarshalJSON() ([]byte, error) {
	return c.appendJSON(make([]byte, 0, 256)), nil
}

func (c *Cause) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"kind":`...), c.Kind)
	b = appendOptional(b, "cluster", c.Cluster)
	b = appendOptional(b, "namespace", c.Namespace)
	b = appendOptional(b, "name", c.Name)
	b = appendOptional(b, "uid", c.UID)
	b = appendOptional(b, "resourceVersion", c.ResourceVersion)
	b = appendField(b, "event", c.Event)
	b = appendOptional(b, "state", c.State)
	b = appendOptional(b, "ip", c.IP)
	b = appendOptional(b, "kept", c.Kept)
	b = appendOptional(b, "rule", c.Rule)
	if !c.SourceTime.IsZero() {
		b = appendTime(append(b, `,"sourceTime":`...), c.SourceTime)
	}
	b = appendTime(append(b, `,"arrival":`...), c.Arrival)
	b = strconv.AppendBool(append(b, `,"live":`...), c.Live)
	return append(b, '}')
}

// MarshalJSON renders the stages in milliseconds.
func (s Stages) MarshalJSON() ([]byte, error) {
	return s.appendJSON(make([]byte, 0, 160)), nil
}

func (s *Stages) appendJSON(b []byte) []byte {
	b = appendMillis(append(b, `{"queue":`...), s.Queue)
	b = appendMillis(append(b, `,"compute":`...), s.Compute)
	if s.WriteService > 0 {
		b = appendMillis(append(b, `,"write_service":`...), s.WriteService)
	}
	b = appendMillis(append(b, `,"write_endpoints":`...), s.WriteEndpoints)
	b = appendMillis(append(b, `,"write_slices":`...), s.WriteSlices)
	b = appendMillis(append(b, `,"total":`...), s.Total)
	if s.Echo > 0 {
		b = appendMillis(append(b, `,"echo":`...), s.Echo)
	}
	return append(b, '}')
}

// stagesJSON is the JSON form of Stages, for decoding.
type stagesJSON struct {
	Queue          float64 `json:"queue"`
	Compute        float64 `json:"compute"`
	WriteService   float64 `json:"write_service"`
	WriteEndpoints float64 `json:"write_endpoints"`
	WriteSlices    float64 `json:"write_slices"`
	Total          float64 `json:"total"`
	Echo           float64 `json:"echo"`
}

// UnmarshalJSON is the inverse of MarshalJSON, to the microsecond.
func (s *Stages) UnmarshalJSON(data []byte) error {
	var v stagesJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*s = Stages{
		Queue: duration(v.Queue), Compute: duration(v.Compute), WriteService: duration(v.WriteService),
		WriteEndpoints: duration(v.WriteEndpoints), WriteSlices: duration(v.WriteSlices),
		Total: duration(v.Total), Echo: duration(v.Echo),
	}
	return nil
}

func duration(millis float64) time.Duration {
	return time.Duration(millis * float64(time.Millisecond)).Round(time.Microsecond)
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Round(time.Microsecond))/float64(time.Millisecond), 'f', 3, 64)
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, StampFormat)
	return append(b, '"')
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendField(b, name, value)
}

func appendCount(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, int64(n), 10)
}

// appendList renders a list; an empty one as [], so that a reader need not
// tell null from none.
func appendList(b []byte, name string, values []string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, `":`...)
	for i, v := range values {
		b = appendString(append(b, separator(i, "[")...), v)
	}
	if len(values) == 0 {
		b = append(b, '[')
	}
	return append(b, ']')
}

// separator is what stands before the i-th element of a list.
func separator(i int, opening string) string {
	if i == 0 {
		return opening
	}
	return ","
}

// appendString renders s as JSON. What a cluster sends is nearly always plain
// ASCII; anything else goes the long way.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // cannot happen: a string always marshals
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
