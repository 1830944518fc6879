"""The transforms: functions that take functions."""
