package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is passed to a section: its settings and resources, and its figures.
type Report struct {
	// Binary is the program to measure.
	Binary string
	// Scratch is a directory that is removed at the end.
	Scratch string
	// Short requests fewer and shorter rounds.
	Short bool
	// Large also requests measurements that take many minutes.
	Large bool
	// Database, if not empty, is the only database to measure notifications with.
	Database string
	// ProfileDir, if not empty, is the directory for processor profiles.
	ProfileDir string

	out  io.Writer
	doc  document
	open *sectionResult
}

// Figure is one measured value.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Beside is the value for comparison, in the same unit.
	Beside *Beside `json:"beside,omitempty"`
	// Goal is the goal of the value; a figure with the zero Goal is
	// informational.
	Goal Goal `json:"-"`
	// Detail is additional text.
	Detail string `json:"detail,omitempty"`

	// For the JSON file.
	Ratio    float64 `json:"ratio,omitempty"`
	GoalText string  `json:"goal,omitempty"`
	Result   string  `json:"result"`
}

// Beside is a peer or a limit, measured in the same run.
type Beside struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Goal is a limit for a figure.
type Goal struct {
	kind  goalKind
	limit float64
}

type goalKind int

const (
	noGoal goalKind = iota
	below
	shareOf
	atLeast
)

// Below requires the value to be less than limit.
func Below(limit float64) Goal { return Goal{below, limit} }

// AtLeast requires the value to reach limit.
func AtLeast(limit float64) Goal { return Goal{atLeast, limit} }

// ShareOf requires the value to be at least this share of Beside.
func ShareOf(share float64) Goal { return Goal{shareOf, share} }

// The results of a figure.
const (
	resultPass = "PASS"
	resultFail = "FAIL"
	resultInfo = "-"
)

// judge returns whether the figure reaches its goal. A share of nothing does not.
func (f Figure) judge() string {
	var ok bool
	switch f.Goal.kind {
	case noGoal:
		return resultInfo
	case below:
		ok = f.Value < f.Goal.limit
	case atLeast:
		ok = f.Value >= f.Goal.limit
	case shareOf:
		ok = f.ratio() >= f.Goal.limit
	}
	if ok {
		return resultPass
	}
	return resultFail
}

// ratio returns 0 if there is nothing to compare with.
func (f Figure) ratio() float64 {
	if f.Beside == nil || f.Beside.Value <= 0 {
		return 0
	}
	return f.Value / f.Beside.Value
}

func (f Figure) goalText() string {
	switch f.Goal.kind {
	case below:
		return fmt.Sprintf("< %s %s", number(f.Goal.limit), f.Unit)
	case atLeast:
		return fmt.Sprintf(">= %s %s", number(f.Goal.limit), f.Unit)
	case shareOf:
		return fmt.Sprintf(">= %.0f %%", 100*f.Goal.limit)
	}
	return ""
}

// document is the content of the -json file.
type document struct {
	Started  time.Time        `json:"started"`
	Ingot    string           `json:"ingot"`
	Go       string           `json:"go"`
	System   string           `json:"system"`
	CPUs     int              `json:"cpus"`
	Short    bool             `json:"short"`
	Sections []*sectionResult `json:"sections"`
}

type sectionResult struct {
	Name       string   `json:"name"`
	Seconds    float64  `json:"seconds"`
	LoadBefore string   `json:"load_before,omitempty"`
	LoadAfter  string   `json:"load_after,omitempty"`
	Figures    []Figure `json:"figures"`
	Notes      []string `json:"notes,omitempty"`
	Error      string   `json:"error,omitempty"`

	began time.Time
}

// Add adds a figure.
func (r *Report) Add(f Figure) {
	f.Ratio, f.GoalText, f.Result = f.ratio(), f.goalText(), f.judge()
	r.open.Figures = append(r.open.Figures, f)
}

// Note adds information for readers of the figures.
func (r *Report) Note(format string, args ...any) {
	r.open.Notes = append(r.open.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) begin(version string) {
	r.doc = document{
		Started: time.Now().UTC(), Ingot: version, Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Short: r.Short,
	}
	fmt.Fprintf(r.out, "%s\nmeasured by %s on %s with %d CPUs\n", version, r.doc.Go, r.doc.System, r.doc.CPUs)
	if r.Short {
		fmt.Fprintln(r.out, "short rounds: the figures are not reliable")
	}
}

func (r *Report) enter(s Section) {
	r.open = &sectionResult{Name: s.Name, LoadBefore: loadAverage(), began: time.Now()}
	r.doc.Sections = append(r.doc.Sections, r.open)
	fmt.Fprintf(r.out, "\n%s: %s\n", s.Name, s.About)
}

func (r *Report) leave(err error) {
	s := r.open
	s.Seconds = time.Since(s.began).Seconds()
	s.LoadAfter = loadAverage()
	if err != nil {
		s.Error = err.Error()
	}
	s.print(r.out)
}

// finish prints the summary. It returns an error if goals were missed.
func (r *Report) finish() error {
	var passed, missed, broken int
	fmt.Fprintln(r.out, "\nsummary")
	var rows [][]string
	for _, s := range r.doc.Sections {
		for _, f := range s.Figures {
			switch f.Result {
			case resultPass:
				passed++
			case resultFail:
				missed++
			default:
				continue
			}
			rows = append(rows, []string{s.Name, f.Name, figureText(f), f.GoalText, f.Result})
		}
		if s.Error != "" {
			broken++
			rows = append(rows, []string{s.Name, "", "", "", "ERROR"})
		}
	}
	table(r.out, rows, 2)
	fmt.Fprintf(r.out, "  %d goals reached, %d missed, %d sections could not be measured\n", passed, missed, broken)
	if missed+broken > 0 {
		return errors.New("goals were missed")
	}
	return nil
}

// figureText formats the value for comparison with its goal.
func figureText(f Figure) string {
	if f.Goal.kind == shareOf {
		return ratioText(f.ratio()) + " of " + f.Beside.Name
	}
	return number(f.Value) + " " + f.Unit
}

func (r *Report) writeJSON(file string) error {
	text, err := json.MarshalIndent(r.doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func (s *sectionResult) print(w io.Writer) {
	rows := [][]string{{"figure", "value", "unit", "beside", "", "ratio", "goal", "result", ""}}
	for _, f := range s.Figures {
		row := []string{f.Name, number(f.Value), f.Unit, "", "", "", f.GoalText, f.Result, f.Detail}
		if f.Beside != nil {
			row[3], row[4], row[5] = f.Beside.Name, number(f.Beside.Value), ratioText(f.Ratio)
		}
		rows = append(rows, row)
	}
	if len(s.Figures) > 0 {
		table(w, rows, 1, 4, 5)
	}
	for _, n := range s.Notes {
		fmt.Fprintln(w, wrap("note: "+n, 110, "  ", "    "))
	}
	if s.LoadBefore != "" {
		fmt.Fprintf(w, "  %.0f s, load average %s before and %s after\n", s.Seconds, s.LoadBefore, s.LoadAfter)
	}
	if s.Error != "" {
		fmt.Fprintf(w, "  ERROR: %s\n", s.Error)
	}
}

// table writes rows in columns. Columns in right are right-aligned.
func table(w io.Writer, rows [][]string, right ...int) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	toRight := map[int]bool{}
	for _, i := range right {
		toRight[i] = true
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if toRight[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString("  " + cell)
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// wrap breaks a text into lines of about the given width.
func wrap(text string, width int, first, then string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			b.WriteString(first)
		case column+1+len(word) > width:
			b.WriteString("\n" + then)
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// number formats a number with three significant digits, or all digits before the
// point.
func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func ratioText(ratio float64) string {
	if ratio < 2 {
		return fmt.Sprintf("%.1f %%", 100*ratio)
	}
	return fmt.Sprintf("%.1f x", ratio)
}

// loadAverage returns "" where the system does not report it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}
