// Package cron finds the times of cron expressions in a time zone.
//
// Imports: the standard library only.
package cron
