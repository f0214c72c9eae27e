package platform

import "time"

// Traffic counts the requests to an instance through its routes.
type Traffic struct {
	Requests int64         `json:"requests"` // finished
	Classes  [6]int64      `json:"classes"`  // by the first digit of the status; 0 means no status
	Buckets  []int64       `json:"buckets"`  // by the router's bounds of the duration
	Duration time.Duration `json:"duration"` // sum over all requests
	Sent     int64         `json:"sent"`     // bytes of bodies
	Received int64         `json:"received"`
	// Connections are those of TCP routes that have ended.
	Connections int64 `json:"connections,omitempty"`
}

// Add adds the counts of other.
func (t *Traffic) Add(other Traffic) { t.plus(other, 1) }

// Minus returns the counts that t has beyond those of other, which it includes.
func (t Traffic) Minus(other Traffic) Traffic {
	var rest Traffic
	rest.plus(t, 1)
	rest.plus(other, -1)
	return rest
}

func (t *Traffic) plus(other Traffic, sign int64) {
	t.Requests += sign * other.Requests
	t.Duration += time.Duration(sign) * other.Duration
	t.Sent += sign * other.Sent
	t.Received += sign * other.Received
	t.Connections += sign * other.Connections
	for i, n := range other.Classes {
		t.Classes[i] += sign * n
	}
	if missing := len(other.Buckets) - len(t.Buckets); missing > 0 {
		t.Buckets = append(append([]int64{}, t.Buckets...), make([]int64, missing)...)
	}
	for i, n := range other.Buckets {
		t.Buckets[i] += sign * n
	}
}
