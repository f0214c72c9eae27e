package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// job is a line of the crontab.
type job struct {
	name     string
	schedule schedule
	command  string
	env      []string
	timeout  time.Duration
	// catchUp runs a missed time once, as soon as possible.
	catchUp bool
}

// assignment is a line that sets a variable.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// option is a word in front of a schedule.
var option = regexp.MustCompile(`^([a-z]+)=(\S+)$`)

// crontab is the state while lines are parsed.
type crontab struct {
	zone     *time.Location
	timeout  time.Duration
	start    time.Time
	env      []string
	jobs     []job
	problems []error
	names    map[string]bool
}

// parse parses a crontab. It reports all lines that are wrong.
func parse(text string, zone *time.Location, timeout time.Duration, start time.Time) ([]job, error) {
	c := &crontab{zone: zone, timeout: timeout, start: start, names: map[string]bool{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := c.line(line); err != nil {
			c.problems = append(c.problems, fmt.Errorf("line %d: %w: %s", n, err, line))
		}
	}
	if len(c.jobs) == 0 && len(c.problems) == 0 {
		return nil, errors.New("the crontab has no jobs")
	}
	return c.jobs, errors.Join(c.problems...)
}

func (c *crontab) line(line string) error {
	if m := assignment.FindStringSubmatch(line); m != nil && !option.MatchString(strings.Fields(line)[0]) {
		return c.assign(m[1], strings.Trim(m[2], `"'`))
	}
	j := job{timeout: c.timeout, env: append([]string(nil), c.env...)}
	zone := c.zone
	for {
		word, rest, _ := strings.Cut(line, " ")
		m := option.FindStringSubmatch(word)
		if m == nil {
			break
		}
		var err error
		if zone, err = j.option(m[1], m[2], zone); err != nil {
			return err
		}
		line = strings.TrimSpace(rest)
	}
	var err error
	if j.schedule, j.command, err = parseSchedule(line, zone, c.start); err != nil {
		return err
	}
	if j.command == "" {
		return errors.New("no command follows the schedule")
	}
	if j.schedule.next(c.start).IsZero() {
		return errors.New("this time never comes")
	}
	if j.name == "" {
		j.name = path.Base(strings.Fields(j.command)[0])
	}
	for base, i := j.name, 2; c.names[j.name]; i++ {
		j.name = fmt.Sprintf("%s-%d", base, i)
	}
	c.names[j.name] = true
	c.jobs = append(c.jobs, j)
	return nil
}

// assign sets a variable for the jobs that follow.
func (c *crontab) assign(name, value string) error {
	if name == "CRON_TZ" || name == "TZ" {
		zone, err := time.LoadLocation(value)
		if err != nil {
			return fmt.Errorf("the time zone %q is unknown: use a name such as Europe/Berlin", value)
		}
		c.zone = zone
	}
	c.env = append(c.env, name+"="+value)
	return nil
}

// option sets an option of a job, and returns its time zone.
func (j *job) option(key, value string, zone *time.Location) (*time.Location, error) {
	var err error
	switch key {
	case "name":
		j.name = value
	case "timeout":
		if j.timeout, err = time.ParseDuration(value); err != nil || j.timeout <= 0 {
			return nil, fmt.Errorf("timeout=%s must be a duration such as 10m", value)
		}
	case "missed":
		if value != "skip" && value != "run" {
			return nil, fmt.Errorf("missed=%s must be skip or run", value)
		}
		j.catchUp = value == "run"
	case "tz":
		if zone, err = time.LoadLocation(value); err != nil {
			return nil, fmt.Errorf("the time zone %q is unknown: use a name such as Europe/Berlin", value)
		}
	default:
		return nil, fmt.Errorf("the option %s=%s is unknown: use name, timeout, missed or tz", key, value)
	}
	return zone, nil
}

// parseSchedule splits a line into its schedule and its command.
func parseSchedule(line string, zone *time.Location, start time.Time) (schedule, string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, "", errors.New("no schedule follows the options")
	}
	if words[0] == "@every" {
		if len(words) < 2 {
			return nil, "", errors.New("@every needs a duration, such as @every 90s")
		}
		d, err := time.ParseDuration(words[1])
		if err != nil || d < time.Second {
			return nil, "", fmt.Errorf("@every %s must be a duration of at least 1s, such as 90s", words[1])
		}
		return every{start, d}, after(line, 2), nil
	}
	if strings.HasPrefix(words[0], "@") {
		text, ok := shorthands[words[0]]
		if !ok {
			return nil, "", fmt.Errorf("%s is unknown: use @every DURATION, @hourly, @daily, @weekly, @monthly or @yearly",
				words[0])
		}
		c, err := parseCalendar(strings.Fields(text), zone)
		if err != nil {
			return nil, "", err
		}
		return c, after(line, 1), nil
	}
	if len(words) < len(fields) {
		return nil, "",
			fmt.Errorf("a schedule has 5 fields (minute, hour, day of the month, month, day of the week), and this has %d",
				len(words))
	}
	c, err := parseCalendar(words[:len(fields)], zone)
	if err != nil {
		return nil, "", err
	}
	return c, after(line, len(fields)), nil
}

// after returns a line without its first words. The rest stays as it is written.
func after(line string, words int) string {
	for range words {
		line = strings.TrimLeft(line, " \t")
		i := strings.IndexAny(line, " \t")
		if i < 0 {
			return ""
		}
		line = line[i:]
	}
	return strings.TrimSpace(line)
}
