#!/bin/sh
cp -R /solution/files/. /app/
