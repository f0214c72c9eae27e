package platform

import "time"

// LogLine is one line of an app's log, written by the app, a build, the router or
// the platform.
type LogLine struct {
	App  string // guid
	Time time.Time
	// Source is the component that wrote it: APP/PROC/WEB, STG, API, CELL, RTR, SSH, LGR.
	Source   string
	Instance string // index as text
	Stderr   bool
	Text     []byte // without its line break
	// Tags are shown beside those that the log API derives. Maps of lines that
	// were read are shared: they must not be changed.
	Tags map[string]string
	// Stream names the stream of records that the line comes from, an instance
	// guid for example, and Seq is its number there, from 1. Lines of the platform
	// itself have neither.
	Stream string
	Seq    uint64
	// Lost is how many lost lines this line reports: those of its stream, if it
	// has one. The log store adds them up. A line that was read has none.
	Lost uint64
}
