// Cron is a sidecar that runs commands at times of a crontab, in the container of the
// app. README.md lists the settings.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	_ "time/tzdata" // an app's container need not have time zones

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		jobs, index, err := configure(os.Getenv, time.Now())
		if err != nil {
			return fmt.Errorf("cron: %w", err)
		}
		if index != "" {
			slog.Info("jobs run on the instance 0 only; CRON_INSTANCES=all changes that", "instance", index)
			<-ctx.Done()
			return nil
		}
		r := &runner{jobs: jobs, run: shell, out: os.Stdout, errOut: os.Stderr}
		for i := range jobs {
			r.printf(&jobs[i], "next run %s", jobs[i].schedule.next(time.Now()).Format(time.RFC3339))
		}
		r.work(ctx)
		return nil
	})
}

// configure returns the jobs, and the index of this instance if it is to run none.
func configure(getenv func(string) string, now time.Time) (jobs []job, index string, err error) {
	e := &sample.Env{Get: getenv}
	name := e.Text("CRON_TZ", e.Text("TZ", "UTC"))
	zone, err := time.LoadLocation(name)
	if err != nil {
		e.Problem("CRON_TZ is %q, which is unknown: use a name such as Europe/Berlin", name)
	}
	timeout := e.Duration("CRON_TIMEOUT", time.Hour, time.Second)
	which := e.OneOf("CRON_INSTANCES", "first", "all")
	text, file := e.Get("CRON_JOBS"), e.Text("CRON_FILE", "")
	switch {
	case text == "" && file == "":
		e.Problem("CRON_JOBS and CRON_FILE are not set: set one of them to a crontab, or to the path of one")
	case text != "" && file != "":
		e.Problem("CRON_JOBS and CRON_FILE are both set: only one of them can be")
	case file != "":
		read, err := os.ReadFile(file)
		if err != nil {
			e.Problem("CRON_FILE: %w", err)
		}
		text = string(read)
	}
	if err := e.Err(); err != nil {
		return nil, "", err
	}
	if jobs, err = parse(text, zone, timeout, now); err != nil {
		return nil, "", errors.Join(errors.New("the crontab cannot be used"), err)
	}
	if at := getenv("CF_INSTANCE_INDEX"); which == "first" && at != "" && at != "0" {
		index = at
	}
	return jobs, index, nil
}
